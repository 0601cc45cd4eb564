// The scheduler: is it alive, what does it enforce, how long do its cycles take.

import type { SchedulerView, Timing } from "../../generated/views";
import { Card, Grid } from "../components/card";
import { Status } from "../components/status";
import { useView } from "../stream";
import { count } from "../units";

export function Scheduler() {
  const live = useView<SchedulerView>("/api/views/scheduler");
  const view = live.view;
  const most = Math.max(0, ...(view?.times ?? []).map(total));
  return (
    <main>
      <h1>Scheduler</h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && (
        <>
          <Card title="Health">
            {view.hidden.length > 0 && (
              <p class="hint">You may not see {view.hidden.join(", ")} of this cluster, by which schedulers tell that they are alive.</p>
            )}
            <ul class="plain">
              {view.components.map((each) => (
                <li key={`${each.name} ${each.note}`} class={each.problem ? "problem" : ""}>
                  <span class={each.problem ? "dot bad" : "dot"} aria-hidden="true" /> {each.name} {each.note}: {each.problem || "alive"}
                </li>
              ))}
            </ul>
            {view.metrics && (
              <p class={view.violations ? "alert" : "hint"}>
                {view.violations
                  ? `${count(view.violations, "decision")} broke an invariant and ${view.violations === 1 ? "was" : "were"} dropped; the scheduler's log names them.`
                  : "No decision has broken an invariant."}
              </p>
            )}
          </Card>
          <Card title="Configuration">
            <dl class="facts">
              {view.facts.map((fact) => (
                <div key={fact.name}>
                  <dt>{fact.name}</dt>
                  <dd>{fact.text.replaceAll(",", ", ") || "none"}</dd>
                </div>
              ))}
            </dl>
            {view.configuration && (
              <details>
                <summary>Text of the configuration</summary>
                <pre tabIndex={0}>{view.configuration}</pre>
              </details>
            )}
          </Card>
          <Card title="Time per cycle">
            {view.times.length === 0 && (
              <p class="empty">The metrics of the scheduler are not served here, or you may not read them.</p>
            )}
            {view.times.length > 0 && (
              <Grid label="Time per cycle" titles={["Part", "Name", "Runs", "Mean", "99 % within", "Together"]} right={[2, 3, 4]}>
                {view.times.map((each) => (
                  <tr key={`${each.kind} ${each.name}`} class={each.kind === "plug-in" ? "below" : ""}>
                    <td>{each.kind}</td>
                    <td>{each.name || "all of it"}</td>
                    <td class="number">{each.count.toLocaleString("en")}</td>
                    <td class="number">{ms(each.mean)}</td>
                    <td class="number">{each.most ? ms(each.most) : ""}</td>
                    <td class="free">
                      <span class="bar" role="img" aria-label={`${ms(total(each))} together`} title={`${ms(total(each))} together`}>
                        <span class="bar-fill" style={{ width: `${most ? (100 * total(each)) / most : 0}%` }} />
                      </span>
                    </td>
                  </tr>
                ))}
              </Grid>
            )}
          </Card>
        </>
      )}
    </main>
  );
}

function total(each: Timing): number {
  return each.mean * each.count;
}

function ms(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
  return `${value < 0.1 ? value.toFixed(3) : value < 100 ? value.toFixed(1) : Math.round(value)} ms`;
}

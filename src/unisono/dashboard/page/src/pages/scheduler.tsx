// The scheduler: is it alive, what does it enforce, how long do its cycles take.

import type { SchedulerView } from "../../generated/views";
import { Status } from "../components/status";
import { useView } from "../stream";

export function Scheduler() {
  const live = useView<SchedulerView>("/api/views/scheduler");
  const view = live.view;
  return (
    <main>
      <h1>Scheduler</h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && (
        <>
          <ul>
            {view.components.map((each) => (
              <li key={`${each.name} ${each.note}`} class={each.problem ? "problem" : ""}>
                {each.name} {each.note}: {each.problem || "alive"}
              </li>
            ))}
          </ul>
          <dl class="facts">
            {view.facts.map((fact) => (
              <div key={fact.name}>
                <dt>{fact.name}</dt>
                <dd>{fact.text}</dd>
              </div>
            ))}
          </dl>
          <h2>Time per cycle</h2>
          {view.times.length === 0 && (
            <p class="empty">The metrics of the scheduler are not served here, or you may not read them.</p>
          )}
          {view.times.length > 0 && (
            <div class="scroll" tabIndex={0}>
              <table aria-label="Time per cycle">
                <thead>
                  <tr>
                    {["Part", "Name", "Runs", "Mean"].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {view.times.map((each) => (
                    <tr key={`${each.kind} ${each.name}`}>
                      <td>{each.kind}</td>
                      <td>{each.name}</td>
                      <td>{each.count.toLocaleString("en")}</td>
                      <td>{each.mean < 0.1 ? each.mean.toFixed(3) : each.mean.toFixed(1)} ms</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </main>
  );
}

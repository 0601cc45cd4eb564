// The cluster at a glance.

import type { OverviewView } from "../../generated/views";
import { Chart } from "../components/chart";
import { Link } from "../components/link";
import { Bar } from "../components/state";
import { Status } from "../components/status";
import { useNow } from "../now";
import { useView } from "../stream";
import { age, count, percent } from "../units";

export function Overview() {
  const live = useView<OverviewView>("/api/views/overview");
  const now = useNow(5000);
  const view = live.view;
  return (
    <main>
      <h1>Overview</h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && (
        <>
          {view.hidden.length > 0 && <p class="hint">You may not see {view.hidden.join(", ")} of this cluster.</p>}
          <Alerts view={view} />
          <section aria-label="Jobs">
            <h2>Jobs</h2>
            <p class="tiles">
              {view.states.length === 0 && "No jobs."}
              {view.states.map((each) => (
                <Link key={each.value} class={`tile state-${each.value}`} to={`/jobs?state=${each.value}`}>
                  <b>{each.count.toLocaleString("en")}</b> {each.value}
                </Link>
              ))}
            </p>
          </section>
          <section aria-label="Resources">
            <h2>In use</h2>
            <div class="scroll" tabIndex={0}>
              <table aria-label="Resources in use">
                <thead>
                  <tr>
                    {["Resource", "Used", "Of", "Share", "Most free on one node", "Nodes with so many free"].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {view.resources.map((each) => (
                    <tr key={each.name}>
                      <td>{each.name}</td>
                      <td>{each.used}</td>
                      <td>{each.total}</td>
                      <td>
                        <Bar share={each.share} label={`${each.name} in use`} text={percent(each.share)} />
                      </td>
                      <td>{each.largest}</td>
                      <td>{each.holes.map((hole) => `${hole.count} with ${hole.value}`).join(", ")}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </section>
          <section aria-label="What waits">
            <h2>What waits, and why</h2>
            {view.groups.length === 0 && <p class="empty">Nothing waits.</p>}
            {view.groups.length > 0 && (
              <div class="scroll" tabIndex={0}>
                <table aria-label="What waits">
                  <thead>
                    <tr>
                      {["Queue", "Cause", "Jobs", "Pods", "Longest", "For example"].map((title) => (
                        <th key={title} scope="col">
                          {title}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {view.groups.map((group) => (
                      <tr key={group.key}>
                        <td>{group.queue}</td>
                        <td>
                          <Link
                            to={`/jobs?${new URLSearchParams({ state: "waiting", queue: group.queue, ...(group.cause ? { cause: group.cause } : {}) })}`}
                          >
                            {group.cause || "not told yet"}
                          </Link>
                        </td>
                        <td>{count(group.jobs, "job")}</td>
                        <td>{group.pods}</td>
                        <td>{age(group.since, now)}</td>
                        <td class="wrap">{group.line}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </section>
          {view.samples.length > 1 && (
            <section aria-label="Over time">
              <h2>Use over time</h2>
              <Chart
                title="Share of all that is in use"
                times={view.samples.map((sample) => sample.time)}
                lines={lines(view, (sample) => sample.resources)}
              />
              <Chart
                title="Largest share of each queue"
                times={view.samples.map((sample) => sample.time)}
                lines={lines(view, (sample) => sample.queues)}
              />
            </section>
          )}
        </>
      )}
    </main>
  );
}

function Alerts(props: { view: OverviewView }) {
  const { view } = props;
  const problems = view.components.filter((each) => each.problem).map((each) => `${each.name}: ${each.problem}`);
  if (view.nodesDown.length) problems.push(`${count(view.nodesDown.length, "node")} not ready: ${view.nodesDown.slice(0, 10).join(", ")}`);
  return (
    <section aria-label="State of the cluster">
      {problems.map((problem) => (
        <p key={problem} class="problem">
          {problem}
        </p>
      ))}
      <p>
        {count(view.nodesReady, "node")} ready
        {view.nodesCordoned.length ? `, ${view.nodesCordoned.length} cordoned` : ""}
        {view.components.length && !problems.length ? "; all parts of the control plane are alive" : ""}
      </p>
    </section>
  );
}

function lines(view: OverviewView, of: (sample: OverviewView["samples"][number]) => Record<string, number>) {
  const names = [...new Set(view.samples.flatMap((sample) => Object.keys(of(sample))))].sort().slice(0, 12);
  return names.map((name) => ({ name, values: view.samples.map((sample) => of(sample)[name] ?? 0) }));
}

// The cluster at a glance.

import type { BookingLine, BudgetRow, OverviewView, ResourceView } from "../../generated/views";
import { Card, Grid } from "../components/card";
import { causeTitle, root } from "../components/causes";
import { Link } from "../components/link";
import { Holders, Idle, MyJobs, Users } from "../components/people";
import { SharesOverTime } from "../components/shares";
import { Bar } from "../components/state";
import { Status } from "../components/status";
import { useNow } from "../now";
import { jobAddress } from "../route";
import { useView } from "../stream";
import { age, clock, count, inWords, percent, resourceTitle } from "../units";

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
          <MyJobs view={view} now={now} />
          <Tiles view={view} />
          <Idle lines={view.idle} now={now} />
          <Calendar lines={view.calendar} />
          <Budgets rows={view.budgets} now={now} />
          <div class="columns">
            <Users users={view.users} />
            <Holders rows={view.holders} now={now} />
          </div>
          <div class="columns">
            <Card title="In use">
              {view.resources.length === 0 && <p class="empty">No node that takes pods.</p>}
              {view.resources.length > 0 && (
                <Grid label="Resources in use" titles={["Resource", "Used", "Of", "Share", "Free on one node"]} right={[1, 2, 4]}>
                  {view.resources.map((each) => (
                    <tr key={`${each.name} ${each.model}`} class={each.model ? "below" : ""}>
                      <td>{each.model || resourceTitle(each.name)}</td>
                      <td class="number">{each.used}</td>
                      <td class="number">{each.total}</td>
                      <td>
                        <Bar share={each.share} label={`${each.name} ${each.model} in use`} text={percent(each.share)} />
                      </td>
                      <td class="number">{each.largest}</td>
                    </tr>
                  ))}
                </Grid>
              )}
              {view.resources
                .filter((each) => each.holes.length > 0 && !each.model)
                .map((each) => (
                  <Holes key={each.name} resource={each} />
                ))}
            </Card>
            <Card title="Shares over time">
              <SharesOverTime resources={named(view.resources)} />
            </Card>
          </div>
          <Card title="What waits, and why">
            {view.groups.length === 0 && <p class="empty">Nothing waits.</p>}
            {view.groups.length > 0 && (
              <Grid label="What waits" titles={["Queue", "Cause", "Jobs", "Pods", "Longest", "The oldest of them"]} right={[2, 3, 4]}>
                {view.groups.map((group) => (
                  <tr key={group.key}>
                    <td>{group.queue}</td>
                    <td>
                      <Link
                        to={`/jobs?${new URLSearchParams({ state: "waiting", queue: group.queue, ...(group.cause ? { cause: group.cause } : {}) })}`}
                      >
                        {group.cause ? causeTitle(group.cause) : "not told yet"}
                      </Link>
                    </td>
                    <td class="number">{group.jobs.toLocaleString("en")}</td>
                    <td class="number">{group.pods.toLocaleString("en")}</td>
                    <td class="number">{age(group.since, now)}</td>
                    <td class="wrap">
                      <Link to={jobAddress(group.example)}>{group.example.name}</Link>
                      {group.line && <span class="two-lines" title={group.line}>{inWords(root(group.line))}</span>}
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

/** Names of the resources, cards first. */
function named(resources: ResourceView[]): string[] {
  return [...new Set(resources.map((each) => each.name))];
}

function Tiles(props: { view: OverviewView }) {
  const { view } = props;
  return (
    <p class="tiles">
      {view.states.length === 0 && <span class="tile">No jobs</span>}
      {["waiting", "running", "suspended", "failed", "succeeded"]
        .map((state) => view.states.find((each) => each.value === state))
        .map(
          (each) =>
            each && (
              <Link key={each.value} class={`tile state-${each.value}`} to={`/jobs?state=${each.value}`}>
                <b>{each.count.toLocaleString("en")}</b> {each.value}
              </Link>
            ),
        )}
      <Link class="tile" to="/nodes">
        <b>{view.nodesReady.toLocaleString("en")}</b> {view.nodesReady === 1 ? "node" : "nodes"} ready
      </Link>
      {view.nodesCordoned.length > 0 && (
        <Link class="tile" to="/nodes?state=drain">
          <b>{view.nodesCordoned.length}</b> cordoned
        </Link>
      )}
      {view.nodesQuarantined.length > 0 && (
        <Link class="tile" to="/nodes?state=drain">
          <b>{view.nodesQuarantined.length}</b> in quarantine
        </Link>
      )}
    </p>
  );
}

/** What is reserved or allowed otherwise, now and within a day. */
function Calendar(props: { lines: BookingLine[] }) {
  if (!props.lines.length) return null;
  return (
    <Card title="Calendar">
      <Grid label="Calendar" titles={["What", "When", "What it says"]}>
        {props.lines.map((line) => (
          <tr key={line.title}>
            <td class="name">{line.title}</td>
            <td title={`${clock(line.start)} to ${clock(line.end)}`}>
              {line.holds ? `until ${clock(line.end)}` : `from ${clock(line.start)}`}
            </td>
            <td class="wrap">{line.text}</td>
          </tr>
        ))}
      </Grid>
    </Card>
  );
}

/** What may still be used, those budgets first that are used up or will be soon. */
function Budgets(props: { rows: BudgetRow[]; now: number }) {
  if (!props.rows.length) return null;
  return (
    <Card title="Budgets">
      <Grid label="Budgets" titles={["Budget", "Used", "Of", "Share", "Left", "Lasts"]} right={[1, 2, 4]}>
        {props.rows.map((row) =>
          row.state === "invalid" ? (
            <tr key={row.key}>
              <td class="name">{row.name}</td>
              <td class="wrap problem" colSpan={5}>
                {row.amount}
              </td>
            </tr>
          ) : (
            <tr key={row.key}>
              <td class="name" title={row.whose && `of ${row.whose}`}>
                {row.name} <span class="hint">{row.mode.toLowerCase()}</span>
              </td>
              <td class="number">{row.used}</td>
              <td class="number wrap">
                {row.amount} {row.unit}
              </td>
              <td>
                <Bar share={Math.min(1, row.part)} label={`${row.name}, ${row.unit} used`} text={percent(row.part)} />
              </td>
              <td class="number">{row.left}</td>
              <td class={`wrap${row.state === "over" && row.mode === "Hard" ? " problem" : ""}`}>{lasts(row, props.now)}</td>
            </tr>
          ),
        )}
      </Grid>
    </Card>
  );
}

/** Until when a budget lasts, in a few words. */
function lasts(row: BudgetRow, now: number): string {
  const more = row.end > now ? `, more at ${clock(row.end)}` : "";
  if (row.state === "over") return `used up${more}`;
  if (row.exhausted > now) return `until ${clock(row.exhausted)} at ${row.rate} an hour${more}`;
  return row.end > now ? `to the end of its period, ${clock(row.end)}` : "yes";
}

/** How free devices are spread: few nodes with many free ones start what many nodes with one each cannot. */
function Holes(props: { resource: ResourceView }) {
  const { resource } = props;
  const most = Math.max(...resource.holes.map((each) => each.count));
  return (
    <figure class="holes">
      <figcaption>Nodes by their free {resource.name}</figcaption>
      <ol>
        {[...resource.holes]
          .sort((a, b) => Number(a.value) - Number(b.value))
          .map((each) => (
            <li key={each.value} title={`${count(each.count, "node")} with ${each.value} free`}>
              <span class="holes-track">
                <i style={{ height: `${Math.max(6, (100 * each.count) / most)}%` }} />
              </span>
              <b>{each.count}</b>
              <span>
                <span class="unseen">{each.count === 1 ? "node" : "nodes"} with </span>
                {each.value} free
              </span>
            </li>
          ))}
      </ol>
    </figure>
  );
}

function Alerts(props: { view: OverviewView }) {
  const { view } = props;
  const problems = view.components.filter((each) => each.problem).map((each) => `${each.name}: ${each.problem}`);
  if (view.nodesDown.length) problems.push(`${count(view.nodesDown.length, "node")} not ready: ${view.nodesDown.slice(0, 10).join(", ")}`);
  return (
    <section aria-label="Alerts">
      {problems.map((problem) => (
        <p key={problem} class="alert">
          {problem}
        </p>
      ))}
      {view.components.length > 0 && !problems.length && <p class="fine">All parts of the control plane are alive.</p>}
    </section>
  );
}

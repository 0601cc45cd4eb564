// Jobs by their people: the reader's own first, and who holds most.

import type { IdleLine, JobRow, OverviewView, UserLine } from "../../generated/views";
import { jobAddress } from "../route";
import { useUser } from "../session";
import { age, clock, count, duration, inWords, number, percent } from "../units";
import { Card, Grid } from "./card";
import { causeTitle, root } from "./causes";
import { Link } from "./link";
import { Bar, State } from "./state";

/** Why a job waits, or what else is to be said of it, in one line. */
export function Reason(props: { row: JobRow }) {
  const { row } = props;
  const line = row.waiting || row.message || row.progress;
  return (
    <span class="reason" title={line}>
      {row.cause && <span class="cause">{causeTitle(row.cause)}</span>} {inWords(root(line))}
    </span>
  );
}

/** A user's name, with a way to all of their jobs. */
export function UserLink(props: { user: string; own: string }) {
  const { user, own } = props;
  if (!user) return <span class="hint">not known</span>;
  const mine = user === own;
  return (
    <Link to={`/jobs?${new URLSearchParams({ user: mine ? "me" : user })}`}>
      {user}
      {mine ? " (you)" : ""}
    </Link>
  );
}

/** How long a job has waited or run, and when it ends by its own words. */
export function When(props: { row: JobRow; now: number }) {
  const { row, now } = props;
  if (row.state === "waiting") return <span title={clock(row.created)}>waits {age(row.created, now)}</span>;
  if (row.ended) return <span title={clock(row.ended)}>{age(row.ended, now)} ago</span>;
  if (!row.started) return <span title={clock(row.created)}>{age(row.created, now)}</span>;
  const left = row.ends - now;
  return (
    <span title={`${clock(row.started)}${row.ends ? `; ends by ${clock(row.ends)}` : ""}`}>
      {age(row.started, now)}
      {left > 0 ? `, ${duration(left)} left` : ""}
    </span>
  );
}

export function MyJobs(props: { view: OverviewView; now: number }) {
  const { mine, mineStates } = props.view;
  const all = mineStates.reduce((sum, each) => sum + each.count, 0);
  const told = mineStates.map((each) => `${each.count.toLocaleString("en")} ${each.value}`).join(", ");
  return (
    <Card title="My jobs" hint={told} class="mine">
      {all === 0 && (
        <p class="empty">
          You have submitted no job that is here. <Link to="/jobs">All jobs</Link>
        </p>
      )}
      {mine.length > 0 && (
        <Grid label="My jobs" titles={["State", "Job", "GPUs", "Time", "Why, or how far"]} right={[2]}>
          {mine.map((row) => (
            <tr key={row.key}>
              <td>
                <State state={row.state} phase={row.phase} />
              </td>
              <td class="name">
                <Link to={jobAddress(row)} title={`${row.kind} ${row.namespace}/${row.name}`}>
                  {row.name}
                </Link>
              </td>
              <td class="number">{row.cards ? number(row.cards) : ""}</td>
              <td>
                <When row={row} now={props.now} />
              </td>
              <td class="wrap">
                <Reason row={row} />
              </td>
            </tr>
          ))}
        </Grid>
      )}
      {all > mine.length && (
        <p class="more">
          <Link to="/jobs?state=all&user=me">All {count(all, "job")} of mine</Link>
        </p>
      )}
    </Card>
  );
}

export function Users(props: { users: UserLine[] }) {
  const own = useUser();
  const cards = props.users.some((line) => line.held || line.wanted);
  return (
    <Card title="Who holds it">
      {props.users.length === 0 && <p class="empty">Nobody holds or waits for anything.</p>}
      {props.users.length > 0 && (
        <Grid
          label="Users"
          titles={["User", cards ? "GPUs" : "CPUs", "Share", "Running", "Waiting", ...(cards ? ["Wanted"] : [])]}
          right={[1, 3, 4, 5]}
        >
          {props.users.map((line) => (
            <tr key={line.user}>
              <td class="name">
                <UserLink user={line.user} own={own} />
              </td>
              <td class="number">{number(cards ? line.held : line.heldCpus)}</td>
              <td>
                <Bar share={line.share} label={`share of ${line.user}`} text={percent(line.share)} />
              </td>
              <td class="number">{line.running.toLocaleString("en")}</td>
              <td class="number">{line.waiting.toLocaleString("en")}</td>
              {cards && <td class="number">{line.wanted ? number(line.wanted) : ""}</td>}
            </tr>
          ))}
        </Grid>
      )}
    </Card>
  );
}

export function Holders(props: { rows: JobRow[]; now: number }) {
  const own = useUser();
  const cards = props.rows.some((row) => row.held);
  return (
    <Card title="Largest jobs">
      {props.rows.length === 0 && <p class="empty">No job holds anything.</p>}
      {props.rows.length > 0 && (
        <Grid label="Largest jobs" titles={["Job", "User", cards ? "GPUs" : "CPUs", "Runs"]} right={[2]}>
          {props.rows.map((row) => (
            <tr key={row.key}>
              <td class="name">
                <Link to={jobAddress(row)} title={`${row.kind} ${row.namespace}/${row.name}`}>
                  {row.name}
                </Link>
              </td>
              <td>
                <UserLink user={row.user} own={own} />
              </td>
              <td class="number">{number(cards ? row.held : row.heldCpus)}</td>
              <td>
                <When row={row} now={props.now} />
              </td>
            </tr>
          ))}
        </Grid>
      )}
    </Card>
  );
}

/** Jobs that hold GPUs and do nothing with them, and whose they are. */
export function Idle(props: { lines: IdleLine[]; now: number }) {
  const own = useUser();
  if (!props.lines.length) return null;
  const cards = props.lines.reduce((sum, line) => sum + line.row.held, 0);
  return (
    <Card title="Held and idle" hint={`${count(cards, "GPU")} whose processes use no processor`}>
      <Grid label="Held and idle" titles={["Job", "User", "GPUs", "Idle for"]} right={[2]}>
        {props.lines.map((line) => (
          <tr key={line.row.key}>
            <td class="name">
              <Link to={jobAddress(line.row)} title={`${line.row.kind} ${line.row.namespace}/${line.row.name}`}>
                {line.row.name}
              </Link>
            </td>
            <td>
              <UserLink user={line.row.user} own={own} />
            </td>
            <td class="number">{number(line.row.held)}</td>
            <td title={clock(line.since)}>{age(line.since, props.now)}</td>
          </tr>
        ))}
      </Grid>
    </Card>
  );
}

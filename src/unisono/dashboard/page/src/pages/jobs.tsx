// All jobs of every kind in one table, with filters that stand in the address.

import { useEffect, useState } from "preact/hooks";
import type { Choice, JobRow, JobsView } from "../../generated/views";
import { causeTitle } from "../components/causes";
import { between, type Estimates, stillWhen, useEstimates } from "../components/estimate";
import { Link } from "../components/link";
import { Reason } from "../components/people";
import { State } from "../components/state";
import { type Column, Table } from "../components/table";
import { useNow } from "../now";
import { go, jobAddress, useRoute, withQuery } from "../route";
import { useView } from "../stream";
import { useUser } from "../session";
import { age, clock, count, number } from "../units";
import { Status } from "../components/status";

const FILTERS = ["user", "state", "queue", "namespace", "kind", "cause"] as const;

export function Jobs() {
  const route = useRoute();
  const now = useNow(5000);
  const [range, setRange] = useState({ offset: 0, limit: 100 });
  const query = new URLSearchParams(route.query);
  if (!query.has("state")) query.set("state", "live");
  if (query.get("state") === "all") query.delete("state");
  const filters = query.toString();
  useEffect(() => setRange((old) => ({ ...old, offset: 0 })), [filters]);
  query.set("offset", String(range.offset));
  query.set("limit", String(range.limit));
  const estimates = useEstimates();
  const live = useView<JobsView>(`/api/views/jobs?${query}`);
  const view = live.view;
  const set = (changes: Record<string, string>, replace = false) => go(withQuery(route, changes), replace);
  const sort = route.query.get("sort") ?? "state";
  return (
    <main>
      <h1>Jobs</h1>
      <Status live={live} ready={view?.ready ?? false} />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Search
          <input
            type="search"
            value={route.query.get("q") ?? ""}
            onInput={(event) => set({ q: event.currentTarget.value }, true)}
            placeholder="name, queue, reason"
            spellcheck={false}
          />
        </label>
        {FILTERS.map((name) => (
          <Filter
            key={name}
            name={name}
            value={route.query.get(name) ?? ""}
            choices={view ? choicesOf(view, name) : []}
            onChange={(value) => set({ [name]: value })}
          />
        ))}
        <Starts estimates={estimates} />
        <output>{view ? `${count(view.matched, "job")} of ${view.total.toLocaleString("en")}` : ""}</output>
      </form>
      {view && (
        <Table<JobRow>
          label="Jobs"
          columns={columns(now, estimates)}
          order={view.order}
          rows={view.rows}
          offset={view.offset}
          matched={view.matched}
          sort={sort}
          onSort={(column) => set({ sort: sort === column ? `-${column}` : column })}
          onWindow={(offset, limit) => setRange({ offset, limit })}
          empty={view.total ? "No job fits these filters." : "There is no job that you may see."}
        />
      )}
    </main>
  );
}

function choicesOf(view: JobsView, name: (typeof FILTERS)[number]): Choice[] {
  return {
    user: view.users,
    state: view.states,
    queue: view.queues,
    namespace: view.namespaces,
    kind: view.kinds,
    cause: view.causes,
  }[name];
}

function Filter(props: { name: string; value: string; choices: Choice[]; onChange: (value: string) => void }) {
  const own = props.name === "state";
  const reader = useUser();
  const text = (value: string) => (props.name === "cause" ? causeTitle(value) : value);
  const known = props.choices.some((choice) => choice.value === props.value);
  return (
    <label>
      {(props.name[0]?.toUpperCase() ?? "") + props.name.slice(1)}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">{own ? "not ended" : "all"}</option>
        {own && <option value="all">all</option>}
        {props.name === "user" && <option value="me">me ({reader})</option>}
        {props.value && !["all", "me"].includes(props.value) && !known && <option value={props.value}>{text(props.value)}</option>}
        {props.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {text(choice.value)} ({choice.count})
          </option>
        ))}
      </select>
    </label>
  );
}

/** Asks when jobs that wait may start: seconds of a processor, and so not without being told to. */
function Starts(props: { estimates: Estimates }) {
  const { busy, problem, told, ask } = props.estimates;
  return (
    <span class="starts">
      <button type="button" disabled={busy} onClick={() => void ask()} title="Simulates copies of the cluster; nothing is changed">
        {busy ? "Simulating …" : told ? "Estimate again" : "Estimate starts"}
      </button>
      <span role="status" class={problem ? "problem" : "hint"}>
        {problem || (told ? `by ${told.source}` : "")}
      </span>
    </span>
  );
}

function columns(now: number, estimates: Estimates): Column<JobRow>[] {
  return [
    { name: "state", title: "State", sorts: true, cell: (row) => <State state={row.state} phase={row.phase} /> },
    {
      name: "name",
      title: "Job",
      sorts: true,
      cell: (row) => (
        <>
          <Link to={jobAddress(row)} title={`${row.kind} ${row.namespace}/${row.name}`}>
            {row.name}
          </Link>
          <span class="under-name">
            <Reason row={row} />
          </span>
        </>
      ),
    },
    { name: "user", title: "User", sorts: true, narrow: true, cell: (row) => row.user },
    { name: "namespace", title: "Namespace", sorts: true, narrow: true, cell: (row) => row.namespace },
    { name: "kind", title: "Kind", sorts: true, medium: true, cell: (row) => row.kind },
    { name: "queue", title: "Queue", sorts: true, narrow: true, cell: (row) => row.queue },
    { name: "priority", title: "Priority", sorts: true, medium: true, cell: (row) => row.priority },
    {
      name: "gang",
      title: "Gang",
      sorts: true,
      narrow: true,
      right: true,
      cell: (row) => (
        <span title={`${row.placed} of ${row.pods} pods placed, ${row.gang} start together`}>
          {number(Math.min(row.placed, row.gang))}/{number(row.gang)}
        </span>
      ),
    },
    { name: "cards", title: "GPUs", sorts: true, right: true, cell: (row) => (row.cards ? number(row.cards) : "") },
    {
      name: "created",
      title: "Age",
      sorts: true,
      right: true,
      cell: (row) => <span title={`${clock(row.created)}${row.ends ? `; ends by ${clock(row.ends)}` : ""}`}>{age(row.created, now)}</span>,
    },
    ...(estimates.told ? [{ name: "starts", title: "Starts", cell: (row: JobRow) => <Start row={row} estimates={estimates} now={now} /> }] : []),
    { name: "cause", title: "Why", sorts: true, rest: true, wide: true, cell: (row) => <Reason row={row} /> },
  ];
}

/** When half of the simulated futures start a job that waits. */
function Start(props: { row: JobRow; estimates: Estimates; now: number }) {
  const { row, estimates, now } = props;
  const { told } = estimates;
  const found = row.state === "waiting" ? estimates.of(`${row.namespace}/${row.name}`) : undefined;
  if (!told || !found) return null;
  return <span title={between(found, told.until)}>{stillWhen(found.before, told.until, now - estimates.at)}</span>;
}

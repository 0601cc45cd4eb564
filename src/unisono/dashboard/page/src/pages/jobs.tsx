// All jobs of every kind in one table, with filters that stand in the address.

import { useEffect, useState } from "preact/hooks";
import type { Choice, JobRow, JobsView } from "../../generated/views";
import { Link } from "../components/link";
import { State } from "../components/state";
import { type Column, Table } from "../components/table";
import { useNow } from "../now";
import { go, jobAddress, useRoute, withQuery } from "../route";
import { useView } from "../stream";
import { age, clock, count, number } from "../units";
import { Status } from "../components/status";

const FILTERS = ["state", "queue", "namespace", "kind", "cause"] as const;

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
        <output>{view ? `${count(view.matched, "job")} of ${view.total.toLocaleString("en")}` : ""}</output>
      </form>
      {view && (
        <Table<JobRow>
          label="Jobs"
          columns={columns(now)}
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
  return { state: view.states, queue: view.queues, namespace: view.namespaces, kind: view.kinds, cause: view.causes }[
    name
  ];
}

function Filter(props: { name: string; value: string; choices: Choice[]; onChange: (value: string) => void }) {
  const own = props.name === "state";
  const known = props.choices.some((choice) => choice.value === props.value);
  return (
    <label>
      {(props.name[0]?.toUpperCase() ?? "") + props.name.slice(1)}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">{own ? "not ended" : "all"}</option>
        {own && <option value="all">all</option>}
        {props.value && props.value !== "all" && !known && <option value={props.value}>{props.value}</option>}
        {props.choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.value} ({choice.count})
          </option>
        ))}
      </select>
    </label>
  );
}

function columns(now: number): Column<JobRow>[] {
  return [
    { name: "state", title: "State", sorts: true, cell: (row) => <State state={row.state} phase={row.phase} /> },
    {
      name: "name",
      title: "Job",
      sorts: true,
      cell: (row) => (
        <Link to={jobAddress(row)} title={`${row.kind} ${row.namespace}/${row.name}`}>
          {row.name}
        </Link>
      ),
    },
    { name: "namespace", title: "Namespace", sorts: true, narrow: true, cell: (row) => row.namespace },
    { name: "kind", title: "Kind", sorts: true, narrow: true, cell: (row) => row.kind },
    { name: "queue", title: "Queue", sorts: true, narrow: true, cell: (row) => row.queue },
    { name: "priority", title: "Priority", sorts: true, narrow: true, cell: (row) => row.priority },
    {
      name: "gang",
      title: "Gang",
      sorts: true,
      right: true,
      cell: (row) => (
        <span title={`${row.placed} of ${row.pods} pods placed, ${row.gang} start together`}>
          {number(Math.min(row.placed, row.gang))}/{number(row.gang)}
        </span>
      ),
    },
    { name: "cards", title: "GPUs", sorts: true, right: true, cell: (row) => (row.cards ? number(row.cards) : "") },
    { name: "created", title: "Age", sorts: true, right: true, cell: (row) => <span title={clock(row.created)}>{age(row.created, now)}</span> },
    {
      name: "cause",
      title: "Why",
      sorts: true,
      rest: true,
      cell: (row) => <span title={row.waiting || row.message}>{row.waiting || row.message || row.progress}</span>,
    },
  ];
}

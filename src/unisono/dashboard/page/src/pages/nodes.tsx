// Nodes by their place in the topology, each a cell that shows how much of it is in use.

import { useState } from "preact/hooks";
import type { Done, NodeCell, NodesView } from "../../generated/views";
import { Status } from "../components/status";
import { go, useRoute, withQuery } from "../route";
import { Failure, request } from "../session";
import { useView } from "../stream";
import { count, percent } from "../units";

export function Nodes() {
  const route = useRoute();
  const query = new URLSearchParams();
  for (const name of ["q", "state", "offset"]) {
    const value = route.query.get(name);
    if (value) query.set(name, value);
  }
  const live = useView<NodesView>(`/api/views/nodes?${query}`);
  const view = live.view;
  const set = (changes: Record<string, string>, replace = false) => go(withQuery(route, changes), replace);
  const chosen = view?.rows[route.query.get("node") ?? ""];
  const groups = new Map<string, NodeCell[]>();
  for (const name of view?.order ?? []) {
    const cell = view?.rows[name];
    if (!cell) continue;
    const place = cell.path.join(" / ");
    groups.set(place, [...(groups.get(place) ?? []), cell]);
  }
  return (
    <main>
      <h1>Nodes</h1>
      <Status live={live} ready={view?.ready ?? false} />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Search
          <input
            type="search"
            value={route.query.get("q") ?? ""}
            onInput={(event) => set({ q: event.currentTarget.value, offset: "" }, true)}
            placeholder="node, HyperNode"
            spellcheck={false}
          />
        </label>
        <label>
          state
          <select
            value={route.query.get("state") ?? ""}
            onChange={(event) => set({ state: event.currentTarget.value, offset: "" })}
          >
            <option value="">all</option>
            {(view?.states ?? []).map((each) => (
              <option key={each.value} value={each.value}>
                {each.value} ({each.count})
              </option>
            ))}
          </select>
        </label>
        <output>{view?.ready ? `${count(view.matched, "node")} of ${view.total.toLocaleString("en")}` : ""}</output>
      </form>
      {view?.ready && view.total === 0 && <p class="empty">There is no node that you may see.</p>}
      {chosen && <Chosen cell={chosen} cordons={view.cordons} />}
      {[...groups].map(([place, cells]) => (
        <section key={place} aria-label={place || "Nodes in no HyperNode"}>
          {(place || groups.size > 1) && <h2>{place || "In no HyperNode"}</h2>}
          <div class="cells">
            {cells.map((cell) => (
              <button
                key={cell.name}
                type="button"
                class={`cell ${cell.state}`}
                aria-pressed={cell === chosen}
                title={`${cell.name}: ${cell.state}, ${cell.devices || `cpu ${cell.cpus}`}`}
                onClick={() => set({ node: cell.name })}
              >
                <span class="cell-fill" style={{ height: `${100 * cell.share}%` }} />
                <span class="cell-text">
                  {cell.name}
                  <br />
                  {cell.state === "idle" || cell.state === "mix" || cell.state === "alloc"
                    ? cell.cards
                      ? `${cell.cardsUsed}/${cell.cards}`
                      : percent(cell.share)
                    : cell.state}
                </span>
              </button>
            ))}
          </div>
        </section>
      ))}
      {view && view.matched > view.order.length && (
        <p class="actions">
          <button
            type="button"
            disabled={view.offset === 0}
            onClick={() => set({ offset: String(Math.max(0, view.offset - view.order.length)) })}
          >
            Before
          </button>
          <button
            type="button"
            disabled={view.offset + view.order.length >= view.matched}
            onClick={() => set({ offset: String(view.offset + view.order.length) })}
          >
            After
          </button>
          <span>
            {view.offset + 1} to {view.offset + view.order.length} of {view.matched}
          </span>
        </p>
      )}
    </main>
  );
}

function Chosen(props: { cell: NodeCell; cordons: boolean }) {
  const { cell } = props;
  const [told, setTold] = useState("");
  const cordoned = cell.state === "drain";
  const act = async () => {
    try {
      setTold((await request<Done>("POST", "/api/node", { name: cell.name, cordon: !cordoned })).message);
    } catch (error) {
      setTold(error instanceof Failure ? error.message : String(error));
    }
  };
  return (
    <section class="explanation" aria-label={`Node ${cell.name}`}>
      <h2>{cell.name}</h2>
      <dl class="facts">
        {(
          [
            ["State", cell.state],
            ["CPU", cell.cpus],
            ["Memory", cell.memory],
            ["Devices", cell.devices],
            ["Pods", String(cell.pods)],
            ["HyperNodes", cell.path.join(" / ")],
          ] as const
        ).map(([name, text]) =>
          text ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{text}</dd>
            </div>
          ) : null,
        )}
      </dl>
      {cell.held.length > 0 && <h3>Who holds what</h3>}
      <ul>
        {cell.held.map((each) => (
          <li key={each.job}>
            {each.job}: {each.amount}
          </li>
        ))}
      </ul>
      <div class="actions">
        <button type="button" disabled={!props.cordons} onClick={() => void act()}>
          {cordoned ? "Uncordon" : "Cordon"}
        </button>
        {!props.cordons && <span class="hint">You may not change nodes.</span>}
        <span role="status">{told}</span>
      </div>
    </section>
  );
}

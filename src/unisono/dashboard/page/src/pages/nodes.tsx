// Nodes by their place in the topology, each a cell that shows how much of it is in use.

import { useEffect, useState } from "preact/hooks";
import type { Done, NodeCell, NodesView } from "../../generated/views";
import { colourClasses } from "../components/colours";
import { JobLink } from "../components/link";
import { Status } from "../components/status";
import { go, useRoute, withQuery } from "../route";
import { Failure, request } from "../session";
import { useView } from "../stream";
import { count, number, percent } from "../units";

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
  const drawn = useGrowing(view?.order.length ?? 0);
  const colours = colourClasses((view?.order ?? []).flatMap((name) => (view?.rows[name]?.held ?? []).map((each) => each.job)));
  const groups = new Map<string, NodeCell[]>();
  for (const name of (view?.order ?? []).slice(0, drawn)) {
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
          State
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
      {view?.ready && view.total > 0 && view.matched === 0 && <p class="empty">No node fits these filters.</p>}
      {view?.ready && view.matched > 0 && (
        <p class="legend">
          <i class="card-free" /> free
          <i class="card-used" /> held; each gang has a colour of its own
          <i class="node-drain" /> cordoned
          <i class="node-down" /> not ready
        </p>
      )}
      {chosen && <Chosen cell={chosen} colours={colours} cordons={view.cordons} />}
      {[...groups].map(([place, cells]) => (
        <Domain
          key={place}
          name={place || (groups.size > 1 ? "In no HyperNode" : "")}
          cells={cells}
          chosen={chosen}
          colours={colours}
          onChoose={(name) => set({ node: name === chosen?.name ? "" : name })}
        />
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

// What fills a screen, and what is added to it in each pause of the browser.
const FIRST_CELLS = 120;
const MORE_CELLS = 190;

/** How many of `total` cells are drawn: a screenful at once, the others while the browser has nothing else to do. */
function useGrowing(total: number): number {
  const [drawn, setDrawn] = useState(FIRST_CELLS);
  useEffect(() => {
    if (drawn >= total) return undefined;
    const timer = window.setTimeout(() => setDrawn(drawn + MORE_CELLS), 16);
    return () => window.clearTimeout(timer);
  }, [drawn, total]);
  return Math.min(drawn, total);
}

/** The nodes of one HyperNode, with how much of it is free in one piece. */
function Domain(props: {
  name: string;
  cells: NodeCell[];
  chosen: NodeCell | undefined;
  colours: Map<string, string>;
  onChoose: (name: string) => void;
}) {
  const { cells } = props;
  const cards = cells.reduce((sum, cell) => sum + cell.cards, 0);
  const used = cells.reduce((sum, cell) => sum + cell.cardsUsed, 0);
  const whole = cells.filter((cell) => cell.cards > 0 && !cell.cardsUsed && (cell.state === "idle" || cell.state === "mix")).length;
  return (
    <section class="domain" aria-label={props.name || "Nodes"}>
      {props.name && (
        <h2>
          {props.name}{" "}
          <span class="hint">
            {count(cells.length, "node")}
            {cards > 0 ? `, ${number(cards - used)} of ${count(cards, "device")} free, ${count(whole, "whole node")} free` : ""}
          </span>
        </h2>
      )}
      <div class="cells">
        {cells.map((cell) => (
          <button
            key={cell.name}
            type="button"
            class={`cell ${cell.state}`}
            aria-pressed={cell === props.chosen}
            title={`${cell.name}: ${WORDS[cell.state] ?? cell.state}${cell.model ? `, ${cell.model}` : ""}, ${cell.devices || `${cell.cpus} CPUs`}`}
            onClick={() => props.onChoose(cell.name)}
          >
            <span class="cell-name">{cell.name}</span>
            {cell.cards > 0 && cell.cards <= MOST_CARDS ? <Cards cell={cell} colours={props.colours} /> : <span class="cell-bar"><i style={{ width: `${100 * cell.share}%` }} /></span>}
            <span class="cell-text">
              {cell.state === "drain" || cell.state === "down"
                ? WORDS[cell.state]
                : cell.cards
                  ? `${number(cell.cardsUsed)} of ${number(cell.cards)}`
                  : `${percent(cell.share)} CPU`}
            </span>
          </button>
        ))}
      </div>
    </section>
  );
}

const MOST_CARDS = 16;
const WORDS: Record<string, string> = { idle: "idle", mix: "partly used", alloc: "full", drain: "cordoned", down: "not ready" };

/** One square for each card, in the colour of the gang that holds it. */
function Cards(props: { cell: NodeCell; colours: Map<string, string> }) {
  const { cell } = props;
  const owners: string[] = [];
  for (const each of cell.held) for (let n = 0; n < Math.round(each.cards) && owners.length < cell.cards; n++) owners.push(each.job);
  while (owners.length < Math.round(cell.cardsUsed) && owners.length < cell.cards) owners.push("");
  return (
    <span class="cards" aria-hidden="true">
      {Array.from({ length: Math.round(cell.cards) }, (_, index) => {
        const owner = owners[index];
        return <i key={index} class={owner === undefined ? "" : (props.colours.get(owner) ?? "job-0")} title={owner ?? "free"} />;
      })}
    </span>
  );
}

function Chosen(props: { cell: NodeCell; colours: Map<string, string>; cordons: boolean }) {
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
    <section class="card" aria-label={`Node ${cell.name}`}>
      <h2>{cell.name}</h2>
      <dl class="facts">
        {(
          [
            ["State", WORDS[cell.state] ?? cell.state],
            ["Model", cell.model],
            ["Devices", cell.devices],
            ["CPUs", cell.cpus],
            ["Memory", cell.memory],
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
      <ul class="plain">
        {cell.held.map((each) => (
          <li key={each.job}>
            <i class={`swatch ${props.colours.get(each.job) ?? ""}`} /> <JobLink job={each.job} />: {each.amount}
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

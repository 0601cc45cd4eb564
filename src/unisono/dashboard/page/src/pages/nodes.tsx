// Nodes by their place in the topology, each a cell that shows how much of it is in use, or with who holds it how long.

import { useEffect, useState } from "preact/hooks";
import type { Choice, Done, Held, NodeCell, NodesView } from "../../generated/views";
import { colourClasses, OTHERS } from "../components/colours";
import { JobLink, Link } from "../components/link";
import { UserLink } from "../components/people";
import { Status } from "../components/status";
import { Timeline } from "../components/timeline";
import { useNow } from "../now";
import { go, useRoute, withQuery } from "../route";
import { Failure, request, useUser } from "../session";
import { useView } from "../stream";
import { age, clock, count, number, percent } from "../units";

const ASKED = ["q", "state", "model", "free", "offset"];
const NARROW = matchMedia("(max-width: 50rem)");

export function Nodes() {
  const route = useRoute();
  const now = useNow(5000);
  const query = new URLSearchParams();
  for (const name of ASKED) {
    const value = route.query.get(name);
    if (value) query.set(name, value);
  }
  const live = useView<NodesView>(`/api/views/nodes?${query}`);
  const view = live.view;
  const set = (changes: Record<string, string>, replace = false) => go(withQuery(route, changes), replace);
  const filter = (name: string) => (value: string) => set({ [name]: value, offset: "" });
  const chosen = view?.rows[route.query.get("node") ?? ""];
  const byUser = route.query.get("by") === "user";
  const byUse = route.query.get("by") === "use";
  const overTime = route.query.get("show") === "time";
  const keyOf = (held: Held) => (byUser ? held.user : held.job);
  const drawn = useGrowing(view?.order.length ?? 0);
  const shown = (view?.order ?? []).flatMap((name) => view?.rows[name] ?? []);
  const amounts = new Map<string, number>();
  for (const cell of shown)
    for (const each of cell.held) if (keyOf(each)) amounts.set(keyOf(each), (amounts.get(keyOf(each)) ?? 0) + (each.cards || 0.001));
  const largest = colourClasses(amounts);
  const colour = (held: Held) => largest.get(keyOf(held)) ?? OTHERS;
  const groups = new Map<string, NodeCell[]>();
  for (const cell of shown.slice(0, drawn)) {
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
            placeholder="node, HyperNode, job, user"
            spellcheck={false}
          />
        </label>
        <Choose title="State" value={route.query.get("state") ?? ""} choices={view?.states ?? []} onChange={filter("state")} text={(value) => WORDS[value] ?? value} />
        {(view?.models ?? []).length > 0 && (
          <Choose title="Model" value={route.query.get("model") ?? ""} choices={view?.models ?? []} onChange={filter("model")} />
        )}
        {((view?.free ?? []).length > 0 || route.query.get("free")) && (
          <Choose
            title="Free devices"
            value={route.query.get("free") ?? ""}
            choices={view?.free ?? []}
            onChange={filter("free")}
            text={(value) => `${value} or more`}
          />
        )}
        <label>
          Colour by
          <select value={byUser ? "user" : byUse ? "use" : ""} onChange={(event) => set({ by: event.currentTarget.value })}>
            <option value="">job</option>
            <option value="user">user</option>
            {(byUse || shown.some((cell) => cell.use >= 0)) && <option value="use">measured use</option>}
          </select>
        </label>
        <label>
          Show
          <select value={overTime ? "time" : ""} onChange={(event) => set({ show: event.currentTarget.value })}>
            <option value="">what is in use</option>
            <option value="time">who holds it how long</option>
          </select>
        </label>
        <output>{view?.ready ? `${count(view.matched, "node")} of ${view.total.toLocaleString("en")}` : ""}</output>
      </form>
      {view?.ready && view.total === 0 && <p class="empty">There is no node that you may see.</p>}
      {view?.ready && view.total > 0 && view.matched === 0 && <p class="empty">No node fits these filters.</p>}
      {view?.ready && view.matched > 0 && <Legend largest={largest} amounts={amounts} byUser={byUser} overTime={overTime} idle={shown.some((cell) => cell.held.some((each) => isIdle(each, now)))} />}
      {chosen && <Chosen cell={chosen} colour={colour} cordons={view.cordons} now={now} />}
      {overTime && <Timeline cells={shown.slice(0, drawn)} colour={colour} now={now} onChoose={(name) => set({ node: name === chosen?.name ? "" : name })} />}
      {!overTime &&
        [...groups].map(([place, cells]) => (
          <Domain
            key={place}
            name={place || (groups.size > 1 ? "In no HyperNode" : "")}
            many={groups.size > 1 && shown.length > MANY}
            cells={cells}
            chosen={chosen}
            colour={(held) => `${colour(held)}${isIdle(held, now) ? " does-nothing" : ""}`}
            byUse={byUse}
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

// As views.overview has it: programs read their data first.
const IDLE_SECONDS = 300;

function isIdle(held: Held, now: number): boolean {
  return held.idle > 0 && now - held.idle >= IDLE_SECONDS;
}

// So many nodes are no screen of a phone any more: places are folded there.
const MANY = 40;

function Choose(props: { title: string; value: string; choices: Choice[]; onChange: (value: string) => void; text?: (value: string) => string }) {
  const text = props.text ?? ((value: string) => value);
  const known = props.choices.some((each) => each.value === props.value);
  return (
    <label>
      {props.title}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {props.value && !known && <option value={props.value}>{text(props.value)}</option>}
        {props.choices.map((each) => (
          <option key={each.value} value={each.value}>
            {text(each.value)} ({each.count})
          </option>
        ))}
      </select>
    </label>
  );
}

function Legend(props: { largest: Map<string, string>; amounts: Map<string, number>; byUser: boolean; overTime: boolean; idle: boolean }) {
  const { largest, amounts, byUser } = props;
  const own = useUser();
  return (
    <p class="legend">
      {!props.overTime && (
        <>
          <i class="card-free" /> free
        </>
      )}
      {[...largest].map(([name, colour]) => (
        <span key={name}>
          <i class={colour} /> {byUser ? <UserLink user={name} own={own} /> : <JobLink job={name} />}
          {(amounts.get(name) ?? 0) >= 1 ? ` ${number(amounts.get(name) ?? 0)}` : ""}
        </span>
      ))}
      {amounts.size > largest.size && (
        <span>
          <i class={OTHERS} /> {count(amounts.size - largest.size, byUser ? "other user" : "smaller job")}
        </span>
      )}
      {!props.overTime && (
        <>
          {props.idle && (
            <>
              <i class="job-others does-nothing" /> held and idle
            </>
          )}
          <i class="node-drain" /> cordoned or in quarantine
          <i class="node-down" /> not ready
        </>
      )}
    </p>
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
  many: boolean;
  cells: NodeCell[];
  chosen: NodeCell | undefined;
  colour: (held: Held) => string;
  byUse: boolean;
  onChoose: (name: string) => void;
}) {
  const { cells } = props;
  const cards = cells.reduce((sum, cell) => sum + cell.cards, 0);
  const used = cells.reduce((sum, cell) => sum + cell.cardsUsed, 0);
  const whole = cells.filter((cell) => cell.cards > 0 && !cell.cardsUsed && (cell.state === "idle" || cell.state === "mix")).length;
  const [open, setOpen] = useState(!(props.many && NARROW.matches));
  const common = beginning(cells.map((cell) => cell.name));
  return (
    <details class="domain" open={open || !props.name} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class={props.name ? "" : "unseen"}>
        <h2>
          {props.name || "Nodes"}{" "}
          <span class="hint">
            {count(cells.length, "node")}
            {cards > 0 ? `, ${number(cards - used)} of ${count(cards, "device")} free, ${count(whole, "whole node")} free` : ""}
          </span>
        </h2>
      </summary>
      {(open || !props.name) && (
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
              <span class="cell-name">
                <span class="common">{common}</span>
                {cell.name.slice(common.length)}
              </span>
              {props.byUse && cell.use >= 0 ? (
                <span class="cell-bar">
                  <i style={{ width: `${100 * cell.use}%` }} />
                </span>
              ) : cell.cards > 0 && cell.cards <= MOST_CARDS ? (
                <Cards cell={cell} colour={props.colour} />
              ) : (
                <span class="cell-bar">
                  <i style={{ width: `${100 * cell.share}%` }} />
                </span>
              )}
              <span class="cell-text">
                {cell.state === "drain" || cell.state === "down"
                  ? WORDS[cell.state]
                  : props.byUse && cell.use >= 0
                    ? `${percent(cell.use)} used`
                    : cell.cards
                    ? `${number(cell.cardsUsed)} of ${number(cell.cards)}`
                    : `${percent(cell.share)} CPU`}
              </span>
            </button>
          ))}
        </div>
      )}
    </details>
  );
}

/** What names begin with alike, up to a mark between words: on a narrow page it is left out. */
function beginning(names: string[]): string {
  let common = names.length > 1 ? (names[0] ?? "") : "";
  for (const name of names) while (!name.startsWith(common)) common = common.slice(0, -1);
  return common.slice(0, Math.max(common.lastIndexOf("-"), common.lastIndexOf(".")) + 1);
}

const MOST_CARDS = 16;
const WORDS: Record<string, string> = { idle: "idle", mix: "partly used", alloc: "full", drain: "cordoned or in quarantine", down: "not ready" };

/** One square for each card, in the colour of the gang that holds it. */
function Cards(props: { cell: NodeCell; colour: (held: Held) => string }) {
  const { cell } = props;
  const owners: (Held | null)[] = [];
  for (const each of cell.held) for (let n = 0; n < Math.round(each.cards) && owners.length < cell.cards; n++) owners.push(each);
  while (owners.length < Math.round(cell.cardsUsed) && owners.length < cell.cards) owners.push(null);
  return (
    <span class="cards" aria-hidden="true">
      {Array.from({ length: Math.round(cell.cards) }, (_, index) => {
        const owner = owners[index];
        const title = owner === undefined ? "free" : owner ? `${owner.job}${owner.user ? ` of ${owner.user}` : ""}` : "held";
        return <i key={index} class={owner === undefined ? "" : owner ? props.colour(owner) : OTHERS} title={title} />;
      })}
    </span>
  );
}

function Chosen(props: { cell: NodeCell; colour: (held: Held) => string; cordons: boolean; now: number }) {
  const { cell } = props;
  const [told, setTold] = useState("");
  const cordoned = cell.cordoned;
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
            ["State", cell.quarantine ? "in quarantine" : (WORDS[cell.state] ?? cell.state)],
            ["Quarantine", cell.quarantine],
            ["Model", cell.model],
            ["Devices", cell.devices],
            ["CPUs", cell.cpus],
            ["Memory", cell.memory],
            ["Measured use of devices", cell.use >= 0 ? percent(cell.use) : ""],
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
            <i class={`swatch ${props.colour(each)}`} /> {each.job.startsWith("pod ") ? each.job : <JobLink job={each.job} />}: {each.amount}
            {each.user ? ", of " : ""}
            {each.user && <Link to={`/jobs?${new URLSearchParams({ user: each.user })}`}>{each.user}</Link>}
            {each.since ? `, for ${age(each.since, props.now)}` : ""}
            {each.ends > props.now ? `, ends by ${clock(each.ends)}` : ""}
            {each.idle > 0 && <b class="problem">, idle for {age(each.idle, props.now)}</b>}
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

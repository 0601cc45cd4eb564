// The tree of queues: what each uses of what it may use, who waits in it and until when, and its spec to edit.

import { useState } from "preact/hooks";
import type { Done, QueueLine, QueuesView, Share } from "../../generated/views";
import { between, type Estimates, useEstimates, when } from "../components/estimate";
import { JobLink, Link } from "../components/link";
import { SharesOverTime } from "../components/shares";
import { Status } from "../components/status";
import { go, useRoute, withQuery } from "../route";
import { Failure, request } from "../session";
import { useView } from "../stream";
import { count, percent, resourceTitle } from "../units";

const TITLES = ["Queue", "State", "Weight", "Waiting", "Running", "In use", "Next in line"];
const NAMED = 5;

export function Queues() {
  const live = useView<QueuesView>("/api/views/queues");
  const route = useRoute();
  const estimates = useEstimates();
  const open = route.query.get("edit") ?? "";
  const view = live.view;
  const edited = view?.rows[open];
  return (
    <main>
      <h1>Queues</h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && view.order.length === 0 && <p class="empty">There is no queue that you may see.</p>}
      {view?.ready && view.order.length > 0 && (
        <>
          <div class="actions">
            <button type="button" disabled={estimates.busy} onClick={() => void estimates.ask()}>
              {estimates.busy ? "Simulating …" : "Estimate starts"}
            </button>
            <span role="status" class={estimates.problem ? "problem" : "hint"}>
              {estimates.problem || (estimates.told ? `by ${estimates.told.source}` : "")}
            </span>
            <span class="legend">
              <i class="used" /> in use
              <i class="mark-guarantee" /> guarantee
              <i class="mark-deserved" /> deserved
              <i class="mark-capability" /> capability
            </span>
          </div>
          <div class="scroll" tabIndex={0} role="group" aria-label="Queues">
            <table aria-label="Queues">
              <thead>
                <tr>
                  {TITLES.map((title, index) => (
                    <th key={title} scope="col" class={`${index > 1 && index < 5 ? "number" : ""} ${index === 1 || index === 2 ? "narrow" : ""}`}>
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {view.order.map((name) => {
                  const queue = view.rows[name];
                  return queue && <Row key={name} queue={queue} estimates={estimates} open={open === name} />;
                })}
              </tbody>
            </table>
          </div>
        </>
      )}
      {edited && <Edit key={edited.name} queue={edited} onClose={() => go(withQuery(route, { edit: "" }))} />}
    </main>
  );
}

function Row(props: { queue: QueueLine; estimates: Estimates; open: boolean }) {
  const { queue, estimates } = props;
  const route = useRoute();
  const until = estimates.told?.until ?? 0;
  return (
    <tr class={props.open ? "open" : ""}>
      <td style={{ paddingLeft: `${0.6 + 1.2 * queue.depth}rem` }}>
        <Link to={withQuery(route, { edit: queue.name })} title={`${queue.name}: its shares over time, and its spec to edit`}>
          {queue.name}
        </Link>
      </td>
      <td class="narrow">{queue.state}</td>
      <td class="number narrow">{queue.weight}</td>
      <td class="number">
        {queue.waiting > 0 && <Link to={`/jobs?${new URLSearchParams({ queue: queue.name, state: "waiting" })}`}>{queue.waiting}</Link>}
      </td>
      <td class="number">
        {queue.running > 0 && <Link to={`/jobs?${new URLSearchParams({ queue: queue.name, state: "running" })}`}>{queue.running}</Link>}
      </td>
      <td class="free">
        {queue.shares.map((share) => (
          <Shares key={share.name} share={share} />
        ))}
      </td>
      <td class="wrap">
        {queue.line.length > 0 && (
          <ol class="line">
            {queue.line.slice(0, NAMED).map((job) => {
              const told = estimates.of(job);
              return (
                <li key={job}>
                  <JobLink job={job} />
                  {told && (
                    <span class="hint" title={between(told, until)}>
                      {" "}
                      {when(told.before, until)}
                    </span>
                  )}
                </li>
              );
            })}
          </ol>
        )}
        {queue.waiting > NAMED ? `and ${count(queue.waiting - NAMED, "other")}` : ""}
      </td>
    </tr>
  );
}

const MARKS = ["guarantee", "deserved", "capability"] as const;

function Shares(props: { share: Share }) {
  const { share } = props;
  const known = MARKS.filter((part) => share[part]);
  const limits = known.map((part) => `${part} ${share[part]}`).join(", ");
  const text = `${resourceTitle(share.name)}: ${share.used || "0"}${share.total ? ` of ${share.total}` : ""}${limits ? `; ${limits}` : ""}`;
  const full = share.capabilityPart > 0 && share.usedPart >= share.capabilityPart;
  return (
    <div class="share" title={text}>
      <span class="share-name">{share.name}</span>
      <span class="bar" role="img" aria-label={text}>
        <span class={full ? "bar-fill full" : "bar-fill"} style={{ width: percentOf(share.usedPart) }} />
        {MARKS.map(
          (part) =>
            share[part] && <span key={part} class={`bar-mark mark-${part}`} style={{ left: `min(${percentOf(share[`${part}Part`])}, 100% - 3px)` }} />,
        )}
      </span>
      <span class="share-text">
        {share.used || "0"}
        <span class="hint">{share.capability ? ` of ${share.capability}` : share.deserved ? ` (deserves ${share.deserved})` : ""}</span>{" "}
        {share.usedPart > 0 && <span class="unseen">{percent(share.usedPart)}</span>}
      </span>
    </div>
  );
}

function percentOf(part: number): string {
  return `${Math.min(100, 100 * part)}%`;
}

function Edit(props: { queue: QueueLine; onClose: () => void }) {
  const { queue } = props;
  const [before, setBefore] = useState(queue.spec);
  const [spec, setSpec] = useState(queue.spec);
  const [told, setTold] = useState("");
  const [failed, setFailed] = useState(false);
  const send = async (dryRun: boolean) => {
    try {
      const done = await request<Done>("POST", "/api/queue", { name: queue.name, spec, before, dryRun });
      setTold(done.message);
      setFailed(false);
      if (!dryRun) setBefore(spec);
    } catch (error) {
      setTold(error instanceof Failure ? error.message : String(error));
      setFailed(true);
    }
  };
  return (
    <section class="card" aria-label={`Queue ${queue.name}`}>
      <h2>Queue {queue.name}</h2>
      <div class="columns">
        <div>
          <h3>Shares over time</h3>
          <SharesOverTime queue={queue.name} resources={queue.shares.length ? queue.shares.map((each) => each.name) : ["cpu"]} />
        </div>
        <div>
          {!queue.editable && <p class="hint">You may not change queues: the server will refuse it.</p>}
          {before !== queue.spec && told === "" && <p class="warning">It has changed since you began to edit.</p>}
          <label class="wide">
            spec, as YAML
            <textarea rows={12} value={spec} spellcheck={false} onInput={(event) => setSpec(event.currentTarget.value)} />
          </label>
          <div class="actions">
            <button type="button" class="primary" onClick={() => void send(false)}>
              Save
            </button>
            <button type="button" onClick={() => void send(true)}>
              Check
            </button>
            <button type="button" onClick={props.onClose}>
              Close
            </button>
            <span role="status" class={failed ? "problem" : ""}>
              {told}
            </span>
          </div>
        </div>
      </div>
    </section>
  );
}

// The tree of queues: what each uses of what it may use, who waits in it, and its spec to edit.

import { useState } from "preact/hooks";
import type { Done, QueueLine, QueuesView, Share } from "../../generated/views";
import { Link } from "../components/link";
import { Status } from "../components/status";
import { go, useRoute, withQuery } from "../route";
import { Failure, request } from "../session";
import { useView } from "../stream";
import { count, percent } from "../units";

export function Queues() {
  const live = useView<QueuesView>("/api/views/queues");
  const route = useRoute();
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
          <p class="hint">
            Bars: what is used, of the most that the queue or the cluster has; the line marks what is deserved.
          </p>
          <div class="scroll" tabIndex={0}>
            <table aria-label="Queues">
              <thead>
                <tr>
                  {["Queue", "State", "Weight", "Waiting", "Running", "In use", "Next in line", ""].map((title) => (
                    <th key={title} scope="col">
                      {title || <span class="unseen">Edit</span>}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {view.order.map((name) => {
                  const queue = view.rows[name];
                  return (
                    queue && (
                      <tr key={name}>
                        <td style={{ paddingLeft: `${0.6 + 1.2 * queue.depth}rem` }}>
                          <Link to={`/jobs?queue=${encodeURIComponent(name)}`}>{name}</Link>
                        </td>
                        <td>{queue.state}</td>
                        <td>{queue.weight}</td>
                        <td>{queue.waiting || ""}</td>
                        <td>{queue.running || ""}</td>
                        <td>
                          {queue.shares.map((share) => (
                            <Shares key={share.name} share={share} />
                          ))}
                        </td>
                        <td class="wrap">
                          {queue.line.slice(0, 3).join(", ")}
                          {queue.waiting > 3 ? ` and ${count(queue.waiting - 3, "other")}` : ""}
                        </td>
                        <td>
                          <button type="button" onClick={() => go(withQuery(route, { edit: name }))}>
                            Edit <span class="unseen">{name}</span>
                          </button>
                        </td>
                      </tr>
                    )
                  );
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

function Shares(props: { share: Share }) {
  const { share } = props;
  const known = (["deserved", "guarantee", "capability"] as const).filter((part) => share[part]);
  const text = `${share.name} ${share.used || "0"}${known.map((part) => `, ${part} ${share[part]}`).join("")}`;
  return (
    <div class="share">
      <span class="bar" role="img" aria-label={text} title={text}>
        <span
          class={share.capabilityPart && share.usedPart >= share.capabilityPart ? "bar-fill full" : "bar-fill"}
          style={{ width: percentOf(share.usedPart) }}
        />
        {share.deservedPart > 0 && <span class="bar-mark" style={{ left: percentOf(share.deservedPart) }} />}
        <span class="bar-text">{percent(share.usedPart)}</span>
      </span>
      <span>{text}</span>
    </div>
  );
}

function percentOf(part: number): string {
  return `${Math.min(100, 100 * part)}%`;
}

function Edit(props: { queue: QueueLine; onClose: () => void }) {
  const { queue } = props;
  const [before] = useState(queue.spec);
  const [spec, setSpec] = useState(queue.spec);
  const [told, setTold] = useState("");
  const [failed, setFailed] = useState(false);
  const send = async (dryRun: boolean) => {
    try {
      const done = await request<Done>("POST", "/api/queue", { name: queue.name, spec, before, dryRun });
      setTold(done.message);
      setFailed(false);
    } catch (error) {
      setTold(error instanceof Failure ? error.message : String(error));
      setFailed(true);
    }
  };
  return (
    <section class="explanation" aria-label={`Edit queue ${queue.name}`}>
      <h2>Queue {queue.name}</h2>
      {!queue.editable && <p class="hint">You may not change queues: the server will refuse it.</p>}
      {before !== queue.spec && <p class="warning">It has changed since you began to edit.</p>}
      <label>
        spec, as YAML
        <textarea
          rows={14}
          cols={60}
          value={spec}
          spellcheck={false}
          onInput={(event) => setSpec(event.currentTarget.value)}
        />
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
    </section>
  );
}

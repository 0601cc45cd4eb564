// What would happen if: when waiting jobs start, as the cluster is and with changes; nothing is changed.

import { useEffect, useState } from "preact/hooks";
import type { ConfigurationView, Futures, Moved, QueuesView } from "../../generated/views";
import { Card, Grid } from "../components/card";
import { between, when } from "../components/estimate";
import { Failure, request } from "../session";
import { useView } from "../stream";
import { count, duration } from "../units";

export function WhatIf() {
  const [changes, setChanges] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [told, setTold] = useState<Futures | null>(null);
  const [inForce, setInForce] = useState<ConfigurationView | null>(null);
  useEffect(() => {
    request<ConfigurationView>("GET", "/api/configuration").then(setInForce, () => undefined);
  }, []);
  const add = (document: string) => setChanges((old) => (old.trim() ? `${old.trimEnd()}\n---\n${document}` : document));
  const ask = async () => {
    setBusy(true);
    setProblem("");
    try {
      setTold(await request<Futures>("POST", "/api/whatif", { changes }));
    } catch (error) {
      setProblem(error instanceof Failure ? error.message : String(error));
      setTold(null);
    }
    setBusy(false);
  };
  return (
    <main>
      <h1>What if</h1>
      <p class="hint">
        The scheduler's engine runs on a copy of the cluster as you see it, with {inForce?.name ?? "its configuration"} unless
        you give another. Nothing is changed.
      </p>
      <Card title="Changes">
        <div class="columns">
          <div>
            <AddNodes add={add} />
            <ChangeQueue add={add} />
          <form
            class="filters"
            onSubmit={(event) => {
              event.preventDefault();
              const name = value(event, "node");
              add(`$patch: delete\napiVersion: v1\nkind: Node\nmetadata: {name: ${JSON.stringify(name)}}\n`);
            }}
          >
            <label>
              Node that is taken away
              <input name="node" required placeholder="name" spellcheck={false} autocomplete="off" />
            </label>
            <button type="submit">Take away</button>
            <button type="button" disabled={!inForce} onClick={() => add(inForce?.text ?? "")}>
              Another configuration
            </button>
          </form>
          </div>
          <label class="wide">
            Changes: objects to merge or delete, nodes to add, or a scheduler configuration, as YAML
            <textarea rows={10} value={changes} spellcheck={false} onInput={(event) => setChanges(event.currentTarget.value)} />
          </label>
        </div>
          <p class="actions">
            <button type="button" class="primary" disabled={busy} onClick={() => void ask()}>
              {busy ? "Simulating …" : "Simulate"}
            </button>
            <button type="button" disabled={busy || !changes} onClick={() => setChanges("")}>
              Clear
            </button>
            <span role="status" class="problem">
              {problem}
            </span>
          </p>
        </Card>
      <Card title="Answer">{told ? <Answer told={told} /> : <p class="empty">Nothing was asked yet. Without changes it tells when jobs start as it is.</p>}</Card>
    </main>
  );
}

function value(event: Event, name: string): string {
  return String(new FormData(event.currentTarget as HTMLFormElement).get(name) ?? "").trim();
}

function AddNodes(props: { add: (document: string) => void }) {
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        const of = (name: string) => value(event, name);
        const gpus = of("gpus") === "0" ? "" : `, gpus: ${of("gpus")}`;
        props.add(`nodes:\n- {name: new, count: ${of("count")}, cpu: ${of("cpus")}, memory: ${of("memory")}Gi${gpus}}\n`);
      }}
    >
      <label>
        More nodes
        <input name="count" type="number" min={1} max={10000} value={2} class="short" required />
      </label>
      <label>
        GPUs each
        <input name="gpus" type="number" min={0} max={64} value={8} class="short" required />
      </label>
      <label>
        CPUs each
        <input name="cpus" type="number" min={1} max={4096} value={96} class="short" required />
      </label>
      <label>
        GiB each
        <input name="memory" type="number" min={1} max={65536} value={512} class="short" required />
      </label>
      <button type="submit">More nodes</button>
    </form>
  );
}

function ChangeQueue(props: { add: (document: string) => void }) {
  const queues = useView<QueuesView>("/api/views/queues").view;
  const names = queues?.order ?? [];
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        const [field, name, given] = [value(event, "field"), value(event, "queue"), value(event, "value")];
        const spec = field === "weight" ? `{weight: ${given}}` : `{${field}: {${value(event, "resource")}: ${given}}}`;
        props.add(`apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: ${JSON.stringify(name)}}\nspec: ${spec}\n`);
      }}
    >
      <label>
        Queue
        <select name="queue">
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Field
        <select name="field">
          {["weight", "capability", "deserved"].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Of (not for weight)
        <input name="resource" value="nvidia.com/gpu" spellcheck={false} required />
      </label>
      <label>
        Value
        <input name="value" class="short" required pattern="[0-9]+[A-Za-z]*" autocomplete="off" />
      </label>
      <button type="submit">Change queue</button>
    </form>
  );
}

function Answer(props: { told: Futures }) {
  const { told } = props;
  const sooner = told.moved.filter((each) => gain(each, told.until) > 0).length;
  const later = told.moved.filter((each) => gain(each, told.until) < 0).length;
  return (
    <section aria-label="Answer">
      {told.told.map((line) => (
        <p key={line}>{line}</p>
      ))}
      <p>
        In the next {duration(told.until)}, by {told.source}: <b>{count(sooner, "job")} sooner</b>, {later} later. Scheduled with {told.configuration}.
      </p>
      {told.moved.length === 0 && <p class="empty">No job waits.</p>}
      {told.moved.length > 0 && (
        <Grid label="Starts" titles={["Job", "Queue", "Starts as it is", "Starts with the change", "80 % between"]}>
          {told.moved.map((each) => (
            <tr key={each.job}>
              <td title={each.job}>{each.name}</td>
              <td>{each.queue}</td>
              <td>{when(each.before, told.until)}</td>
              <td class={gain(each, told.until) > 0 ? "good" : gain(each, told.until) < 0 ? "problem" : ""}>
                {gain(each, told.until) > 0 ? "▲ " : gain(each, told.until) < 0 ? "▼ " : ""}
                {when(each.after, told.until)}
              </td>
              <td class="wrap hint">{between(each, told.until)}</td>
            </tr>
          ))}
        </Grid>
      )}
      {told.evicted.length > 0 && <p class="warning">Evicted by the change: {told.evicted.join(", ")}</p>}
    </section>
  );
}

/** Seconds by which a job starts earlier; below 0 for later. */
function gain(each: Moved, until: number): number {
  const at = (seconds: number) => (seconds < 0 ? until : seconds);
  return at(each.before) - at(each.after);
}

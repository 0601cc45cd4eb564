// What would happen if: when waiting jobs start, as the cluster is and with changes; nothing is changed.

import { useState } from "preact/hooks";
import type { Futures } from "../../generated/views";
import { Failure, request } from "../session";
import { count, duration } from "../units";

const EXAMPLES: [string, string][] = [
  ["As it is", ""],
  ["More nodes", "nodes:\n- {name: new, count: 2, cpu: 96, memory: 512Gi, gpus: 8}\n"],
  [
    "Another weight",
    "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: default}\nspec: {weight: 4}\n",
  ],
  ["A node less", "$patch: delete\napiVersion: v1\nkind: Node\nmetadata: {name: NAME}\n"],
  [
    "Another configuration",
    'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n',
  ],
];

export function WhatIf() {
  const [changes, setChanges] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [told, setTold] = useState<Futures | null>(null);
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
        The scheduler's engine runs on a copy of the cluster as you see it, with its default configuration unless you
        give another. Nothing is changed.
      </p>
      <p class="actions">
        {EXAMPLES.map(([name, text]) => (
          <button key={name} type="button" onClick={() => setChanges(text)}>
            {name}
          </button>
        ))}
      </p>
      <label>
        Changes: objects to merge or delete, nodes to add, or a scheduler configuration, as YAML
        <textarea
          rows={10}
          cols={80}
          value={changes}
          spellcheck={false}
          onInput={(event) => setChanges(event.currentTarget.value)}
        />
      </label>
      <p class="actions">
        <button type="button" class="primary" disabled={busy} onClick={() => void ask()}>
          {busy ? "Simulating …" : "Simulate"}
        </button>
      </p>
      <p role="status" class="problem">
        {problem}
      </p>
      {told && (
        <section aria-label="Answer">
          {told.told.map((line) => (
            <p key={line}>{line}</p>
          ))}
          <p>
            In {count(told.futures, "possible future")} of the next {duration(told.until)}:
          </p>
          {told.moved.length === 0 && <p class="empty">No job waits.</p>}
          {told.moved.length > 0 && (
            <div class="scroll" tabIndex={0}>
              <table aria-label="Starts">
                <thead>
                  <tr>
                    {["PodGroup", "Queue", "Starts as it is", "Starts with the change", "80 % between"].map((title) => (
                      <th key={title} scope="col">
                        {title}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {told.moved.map((each) => (
                    <tr key={each.job}>
                      <td>{each.job}</td>
                      <td>{each.queue}</td>
                      <td>{when(each.before)}</td>
                      <td>{when(each.after)}</td>
                      <td>
                        {when(each.low)} and {when(each.high)}
                        {each.known ? "" : " (its run time is not known)"}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {told.evicted.length > 0 && <p class="warning">Evicted by the change: {told.evicted.join(", ")}</p>}
        </section>
      )}
    </main>
  );
}

function when(seconds: number): string {
  return seconds < 0 ? "later" : seconds < 1 ? "now" : `in ${duration(seconds)}`;
}

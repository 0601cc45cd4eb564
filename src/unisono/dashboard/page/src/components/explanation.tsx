// Why a job waits: the scheduler's verdict with its numbers, and the changes that would start the job.

import { useState } from "preact/hooks";
import type { Done, ExplanationView, FixView, VerdictView } from "../../generated/views";
import { Failure, request } from "../session";
import { JobLink } from "./link";

export function Explanation(props: { job: object; told: ExplanationView }) {
  const { told } = props;
  if (!told.known) return <p class="hint">Asking why …</p>;
  return (
    <section class={`card ${told.verdicts.length ? "why" : ""}`} aria-label="Why">
      {told.verdicts.length > 0 && <h2>Why it waits</h2>}
      {told.problem && <p class="problem">{told.problem}</p>}
      {told.verdicts.length === 0 && <p class="headline">{told.headline}</p>}
      {told.verdicts.map((verdict) => (
        <Verdict key={verdict.job} verdict={verdict} />
      ))}
      {told.notes.length > 0 && <pre class="notes">{told.notes.join("\n")}</pre>}
      {told.warnings.map((warning) => (
        <p key={warning} class="warning">
          {warning}
        </p>
      ))}
      {told.fixes.length > 0 && <h2>What would help</h2>}
      {told.fixes.map((fix) => (
        <Fix key={fix.id} job={props.job} fix={fix} />
      ))}
    </section>
  );
}

function Verdict(props: { verdict: VerdictView }) {
  const { verdict } = props;
  return (
    <div class="verdict">
      <p class="headline">
        <span class="cause">{verdict.cause}</span> {verdict.message}
      </p>
      <div class="columns">
      {verdict.amounts.length > 0 && (
        <table aria-label="Need and have">
          <thead>
            <tr>
              <th scope="col">Resource</th>
              <th scope="col" class="number">Need</th>
              <th scope="col" class="number">Have</th>
            </tr>
          </thead>
          <tbody>
            {verdict.amounts.map((amount) => (
              <tr key={amount.name} class={amount.short ? "short" : ""}>
                <td>{amount.name}</td>
                <td class="number">{amount.need}</td>
                <td class="number">
                  {amount.have}
                  {amount.short ? <b title="less than is needed"> ✕<span class="unseen"> (too little)</span></b> : ""}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {verdict.reasons.length > 0 && (
        <div>
          <h3>Why nodes are ruled out ({verdict.nodes} looked at)</h3>
          <ul>
            {verdict.reasons.map((reason) => (
              <li key={reason.value}>
                {reason.count} {reason.value}
              </li>
            ))}
          </ul>
        </div>
      )}
      {verdict.holders.length > 0 && (
        <table aria-label="Who holds it">
          <thead>
            <tr>
              <th scope="col">Who holds it</th>
              <th scope="col">What</th>
            </tr>
          </thead>
          <tbody>
            {verdict.holders.map((holder) => (
              <tr key={`${holder.kind}/${holder.name}`}>
                <td>
                  {holder.kind} {holder.name.includes("/") ? <JobLink job={holder.name} /> : holder.name}
                </td>
                <td>{holder.amounts}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      </div>
      <dl class="facts">
        {verdict.facts.map((fact) => (
          <div key={fact.name}>
            <dt>{fact.name}</dt>
            <dd>{fact.text}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Fix(props: { job: object; fix: FixView }) {
  const { fix } = props;
  const [told, setTold] = useState("");
  const [failed, setFailed] = useState(false);
  const [busy, setBusy] = useState(false);
  const send = async (dryRun: boolean) => {
    const again = fix.operations.some((operation) => operation.verb === "replace" || operation.verb === "delete");
    if (!dryRun && again && !confirm("This deletes an object. Carry it out?")) return;
    setBusy(true);
    try {
      setTold((await request<Done>("POST", "/api/fix", { ...props.job, id: fix.id, dryRun })).message);
      setFailed(false);
    } catch (error) {
      setTold(error instanceof Failure ? error.message : String(error));
      setFailed(true);
    }
    setBusy(false);
  };
  return (
    <article class="fix">
      <p>
        <strong>{(fix.text[0]?.toUpperCase() ?? "") + fix.text.slice(1)}</strong>{" "}
        <span class={fix.tried ? "badge good" : "badge"}>
          {fix.tried ? "tried on a copy of the cluster: the job starts" : "not tried"}
        </span>
      </p>
      {fix.whyNot && <p class="hint">{fix.whyNot}</p>}
      {fix.operations.length > 0 && (
        <>
          <div class="actions">
            <button type="button" class="primary" disabled={busy || !fix.allowed} onClick={() => void send(false)}>
              Apply
            </button>
            <button
              type="button"
              disabled={busy || !fix.allowed}
              title="The server checks it, and nothing is changed"
              onClick={() => void send(true)}
            >
              Check
            </button>
            {!fix.allowed && <span class="hint">You may not do all of this.</span>}
            <span role="status" class={failed ? "problem" : ""}>
              {told}
            </span>
          </div>
          <details>
            <summary>Preview</summary>
            {fix.operations.map((operation) => (
              <div key={operation.kubectl}>
                <p>
                  {operation.verb} {operation.title}
                  {operation.allowed ? "" : " (you may not)"}
                </p>
                {operation.body && <pre tabIndex={0}>{operation.body}</pre>}
                <pre tabIndex={0}>{operation.kubectl}</pre>
              </div>
            ))}
          </details>
        </>
      )}
    </article>
  );
}

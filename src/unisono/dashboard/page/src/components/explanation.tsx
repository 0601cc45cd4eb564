// Why a job waits: the scheduler's verdict with its numbers, and the changes that would start the job.

import { useEffect, useState } from "preact/hooks";
import type { Done, ExplanationView, FixView, VerdictView } from "../../generated/views";
import { Failure, request, useUser } from "../session";
import { count, duration, inWords, resourceTitle, sentence } from "../units";
import { causeTitle } from "./causes";
import { JobLink, Link } from "./link";
import { UserLink } from "./people";

export interface JobRef {
  apiVersion: string;
  kind: string;
  namespace: string;
  name: string;
}

export function Explanation(props: { job: JobRef; waits: boolean; told: ExplanationView; now: number }) {
  const { job, waits } = props;
  const searched = useSearch(job, waits && props.told.known && props.told.verdicts.length > 0);
  const told = (waits && searched.found) || props.told;
  // What the scheduler itself has tried is offered where the search has found nothing.
  const fixes = told.fixes.length > 0 ? told.fixes : props.told.fixes;
  if (!told.known) return <p class="hint">Asking why …</p>;
  return (
    <section class={`card ${told.verdicts.length ? "why" : ""}`} aria-label="Why">
      {told.verdicts.length > 0 && <h2>Why it waits</h2>}
      {told.problem && <p class="problem">{told.problem}</p>}
      {told.verdicts.length === 0 && <p class="headline">{told.headline}</p>}
      {told.verdicts.map((verdict) => (
        <Verdict key={verdict.job} verdict={verdict} now={props.now} />
      ))}
      {told.notes.length > 0 && <pre class="notes">{told.notes.join("\n")}</pre>}
      {told.warnings.map((warning) => (
        <p key={warning} class="warning">
          {warning}
        </p>
      ))}
      {fixes.length > 0 && <h2>What would help</h2>}
      {fixes.slice(0, MOST_FIXES).map((fix) => (
        <Fix key={fix.id} job={job} fix={fix} />
      ))}
      {fixes.length > MOST_FIXES && (
        <details>
          <summary>{count(fixes.length - MOST_FIXES, "other way")}</summary>
          {fixes.slice(MOST_FIXES).map((fix) => (
            <Fix key={fix.id} job={job} fix={fix} />
          ))}
        </details>
      )}
      {waits && told.verdicts.length > 0 && <SearchLine searched={searched} silent={fixes.length > 0 || told.warnings.length > 0} />}
    </section>
  );
}

const MOST_FIXES = 2;

interface Searched {
  found: ExplanationView | null;
  busy: boolean;
  problem: string;
  again: () => void;
}

/** What the scheduler finds for this job alone, with changes that are tried on a copy of the cluster. */
function useSearch(job: JobRef, wanted: boolean): Searched {
  const [found, setFound] = useState<ExplanationView | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    if (!wanted) return undefined;
    let current = true;
    setBusy(true);
    setProblem("");
    request<ExplanationView>("POST", "/api/search", job)
      .then(
        (told) => current && setFound(told),
        (error: unknown) => current && setProblem(error instanceof Failure ? error.message : String(error)),
      )
      .finally(() => current && setBusy(false));
    return () => {
      current = false;
    };
  }, [wanted, asked, JSON.stringify(job)]);
  return { found, busy, problem, again: () => setAsked(asked + 1) };
}

function SearchLine(props: { searched: Searched; silent: boolean }) {
  const { busy, problem, found, again } = props.searched;
  return (
    <div class="actions">
      <button type="button" disabled={busy} onClick={again}>
        Look again
      </button>
      <span role="status" class={problem ? "problem" : "hint"}>
        {busy
          ? "Trying on a copy of the cluster what would start it …"
          : problem || (found && !props.silent ? "No change of a few steps was found that starts it: it is its turn that it waits for." : "")}
      </span>
    </div>
  );
}

function Verdict(props: { verdict: VerdictView; now: number }) {
  const { verdict } = props;
  const looked = verdict.nodes || verdict.reasons.reduce((sum, each) => sum + each.count, 0);
  return (
    <div class="verdict">
      <p class="headline">
        <span class="cause" title={verdict.cause}>
          {causeTitle(verdict.cause)}
        </span>{" "}
        {sentence(inWords(verdict.root))}
      </p>
      <div class="columns">
        {verdict.amounts.length > 0 && <Numbers verdict={verdict} />}
        {verdict.holders.length > 0 && <HeldBy verdict={verdict} now={props.now} />}
        {verdict.reasons.length > 0 && (
          <div>
            <h3>Why nodes are ruled out ({looked.toLocaleString("en")} looked at)</h3>
            <ul>
              {verdict.reasons.map((reason) => (
                <li key={reason.value}>
                  <b>{reason.count.toLocaleString("en")}</b> {reason.value}
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
      <ul class="besides">
        {verdict.position > 0 && (
          <li>
            Place in the line of queue {verdict.queue}: <b>{verdict.position.toLocaleString("en")}</b>
            {verdict.ahead.length > 0 && ", behind "}
            {verdict.ahead.map((job, index) => (
              <>
                {index > 0 && ", "}
                <JobLink job={job} />
              </>
            ))}
          </li>
        )}
        {verdict.more.map((each) => (
          <li key={each}>{sentence(inWords(each))}</li>
        ))}
      </ul>
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

function Numbers(props: { verdict: VerdictView }) {
  return (
    <table aria-label="Need and have">
      <thead>
        <tr>
          <th scope="col">What it needs</th>
          <th scope="col" class="number">Need</th>
          <th scope="col" class="number">There is</th>
        </tr>
      </thead>
      <tbody>
        {props.verdict.amounts.map((amount) => (
          <tr key={amount.name} class={amount.short ? "short" : ""}>
            <td>{resourceTitle(amount.name)}</td>
            <td class="number">{amount.need}</td>
            <td class="number">
              {amount.have}
              {amount.short ? <b title="less than is needed"> ✕<span class="unseen"> (too little)</span></b> : ""}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function HeldBy(props: { verdict: VerdictView; now: number }) {
  const { holders } = props.verdict;
  const own = useUser();
  const jobs = holders.some((holder) => holder.name.includes("/"));
  return (
    <table aria-label="Who holds it">
      <thead>
        <tr>
          <th scope="col">Who holds it</th>
          {jobs && <th scope="col">User</th>}
          <th scope="col">What</th>
          {jobs && <th scope="col">Ends</th>}
        </tr>
      </thead>
      <tbody>
        {holders.map((holder) => (
          <tr key={`${holder.kind}/${holder.name}`}>
            <td>
              {holder.kind}{" "}
              {holder.name.includes("/") ? (
                <JobLink job={holder.name} />
              ) : holder.kind === "Queue" ? (
                <Link to={`/jobs?${new URLSearchParams({ state: "running", queue: holder.name })}`}>{holder.name}</Link>
              ) : (
                holder.name
              )}
            </td>
            {jobs && <td>{holder.user && <UserLink user={holder.user} own={own} />}</td>}
            <td>{holder.amounts}</td>
            {jobs && <td>{holder.ends > props.now ? `within ${duration(holder.ends - props.now)}` : ""}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Fix(props: { job: JobRef; fix: FixView }) {
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
        <strong>{sentence(inWords(fix.text))}</strong>{" "}
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

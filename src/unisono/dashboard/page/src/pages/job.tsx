// One job: why it waits and what would help, its pods over time, logs, events and YAML.

import { useEffect, useState } from "preact/hooks";
import type { Done, EventRow, JobView, PodRow } from "../../generated/views";
import { Estimate } from "../components/estimate";
import { Explanation, type JobRef } from "../components/explanation";
import { Gantt } from "../components/gantt";
import { Link } from "../components/link";
import { Logs } from "../components/logs";
import { State } from "../components/state";
import { UserLink } from "../components/people";
import { Status } from "../components/status";
import { useNow } from "../now";
import { useRoute, withQuery } from "../route";
import { Failure, request, useUser } from "../session";
import { useView } from "../stream";
import { age, clock, count, duration, number } from "../units";

const TABS = ["pods", "logs", "events", "yaml"] as const;

export function Job(props: JobRef) {
  const job = { apiVersion: props.apiVersion, kind: props.kind, namespace: props.namespace, name: props.name };
  const route = useRoute();
  const now = useNow();
  const ref = new URLSearchParams(job).toString();
  const live = useView<JobView>(`/api/views/job?${ref}`);
  const view = live.view;
  const tab = route.query.get("tab") ?? "pods";
  const row = view?.row;
  const own = useUser();
  return (
    <main>
      <h1>
        {props.kind} {props.name} {view?.found && row && <State state={row.state} phase={row.phase} />}
      </h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && !view.found && (
        <p class="empty">
          There is no {props.kind} {props.namespace}/{props.name} that you may see. See <Link to="/jobs">all jobs</Link>, and{" "}
          <Link to="/usage?by=job">those that are gone</Link>.
        </p>
      )}
      {view?.found && row && (
        <>
          <dl class="facts">
            <Fact name="Namespace" text={row.namespace} />
            <div>
              <dt>Queue</dt>
              <dd>
                <Link to={`/jobs?queue=${encodeURIComponent(row.queue)}`}>{row.queue}</Link>
              </dd>
            </div>
            {row.user && (
              <div>
                <dt>User</dt>
                <dd>
                  <UserLink user={row.user} own={own} />
                </dd>
              </div>
            )}
            <Fact name="Priority" text={row.priority} />
            <Fact name="Gang" text={`${number(Math.min(row.placed, row.gang))} of ${number(row.gang)} placed`} />
            <Fact name="Pods" text={view.phases.map((each) => `${number(each.count)} ${each.value}`).join(", ") || "none"} />
            <Fact name="GPUs" text={row.cards ? number(row.cards) : ""} />
            <Fact name="Created" text={`${clock(row.created)} (${age(row.created, now)} ago)`} />
            <Fact name="Waited" text={row.started ? duration(row.started - row.created) : ""} />
            <Fact name="Ends by" text={row.ends > now ? `${clock(row.ends)} (in ${duration(row.ends - now)})` : ""} />
            <Fact name="Progress" text={row.progress} />
            <Fact name="Message" text={row.message} />
          </dl>
          <Actions job={job} actions={view.actions} phase={row.phase} state={row.state} />
          <Explanation job={job} waits={row.state === "waiting"} told={view.explanation} now={now} />
          {row.state === "waiting" && <Estimate namespace={row.namespace} name={row.name} />}
          <nav class="tabs" aria-label="Parts of this page">
            {TABS.map((name) => (
              <Link key={name} to={withQuery(route, { tab: name === "pods" ? "" : name })} current={tab === name}>
                {name === "yaml" ? "YAML" : name[0]?.toUpperCase() + name.slice(1)}
              </Link>
            ))}
          </nav>
          {tab === "pods" && (
            <>
              <Gantt job={row} pods={view.order.map((name) => view.pods[name] as PodRow)} admitted={view.admitted} now={now} />
              <Pods view={view} now={now} namespace={props.namespace} />
            </>
          )}
          {tab === "logs" && <Logs job={job} pods={view.order.map((name) => view.pods[name] as PodRow)} />}
          {tab === "events" && <Events key={row.key} view={view} now={now} />}
          {tab === "yaml" && <Yaml reference={ref} />}
        </>
      )}
    </main>
  );
}

function Fact(props: { name: string; text: string }) {
  return props.text ? (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.text}</dd>
    </div>
  ) : null;
}

function Actions(props: { job: object; actions: string[]; phase: string; state: string }) {
  const [told, setTold] = useState("");
  const ended = props.state === "succeeded" || props.state === "failed";
  const stopped = props.phase === "Aborted" || props.state === "suspended";
  const offered = props.actions.filter(
    (action) =>
      action === "delete" ||
      (action === "resume" && stopped) ||
      (!ended && !stopped && (action === "suspend" || action === "cancel")),
  );
  const act = async (action: string) => {
    if ((action === "cancel" || action === "delete") && !confirm(`Really ${action} this job?`)) return;
    try {
      setTold((await request<Done>("POST", "/api/job", { ...props.job, action })).message);
    } catch (error) {
      setTold(error instanceof Failure ? error.message : String(error));
    }
  };
  return (
    <div class="actions">
      {offered.map((action) => (
        <button key={action} type="button" onClick={() => void act(action)}>
          {(action[0]?.toUpperCase() ?? "") + action.slice(1)}
        </button>
      ))}
      <span role="status">{told}</span>
    </div>
  );
}

const PODS = ["Pod", "Phase", "Node", "Requests", "Measured use", "Waited", "Ran", "Restarts", "End"];

function Pods(props: { view: JobView; now: number; namespace: string }) {
  const { view } = props;
  const route = useRoute();
  if (!view.order.length) return <p class="empty">It has no pods yet.</p>;
  return (
    <div class="scroll tall" tabIndex={0}>
      <table aria-label="Pods">
        <thead>
          <tr>
            {PODS.map((title, index) => (
              <th key={title} scope="col" class={index > 4 && index < 8 ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {view.order.map((name) => {
            const pod = view.pods[name];
            return (
              pod && (
                <tr key={name}>
                  <td>
                    <Link to={withQuery(route, { tab: "logs", pod: name })} title="log">
                      {name}
                    </Link>
                  </td>
                  <td>{pod.phase}</td>
                  <td>{pod.node}</td>
                  <td>{pod.requests}</td>
                  <td>{pod.usage}</td>
                  <td class="number">{duration((pod.scheduled || pod.started || props.now) - pod.created)}</td>
                  <td class="number">{pod.started ? duration((pod.finished || props.now) - pod.started) : ""}</td>
                  <td class="number">{pod.restarts || ""}</td>
                  <td class="wrap">{pod.ending}</td>
                </tr>
              )
            );
          })}
        </tbody>
      </table>
      {view.podTotal > view.order.length && (
        <p class="hint">The first {view.order.length} of {count(view.podTotal, "pod")} are shown.</p>
      )}
    </div>
  );
}

/** Events of a job; what was said while it waited is no news of one that runs or has ended, and is put away. */
function Events(props: { view: JobView; now: number }) {
  const { view, now } = props;
  if (!view.events.length) return <p class="empty">No events are known.</p>;
  const since = view.row.state === "running" || view.row.ended ? view.row.started : 0;
  const old = view.events.filter((event) => event.time < since);
  const current = view.events.filter((event) => event.time >= since);
  return (
    <>
      {current.length > 0 && <EventTable label="Events" events={current} now={now} />}
      {current.length === 0 && <p class="empty">Nothing has happened since its pods were placed.</p>}
      {old.length > 0 && (
        <details class="old">
          <summary>{count(old.length, "event")} from before its pods were placed</summary>
          <EventTable label="Earlier events" events={old} now={now} />
        </details>
      )}
    </>
  );
}

function EventTable(props: { label: string; events: EventRow[]; now: number }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={props.label}>
      <table aria-label={props.label}>
        <thead>
          <tr>
            {["Age", "Type", "Reason", "About", "Message"].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.events.map((event) => (
            <tr key={event.key} class={event.type === "Warning" ? "warning" : ""}>
              <td title={clock(event.time)}>
                {age(event.time, props.now)}
                {event.count > 1 ? ` (${event.count}×)` : ""}
              </td>
              <td>{event.type}</td>
              <td>{event.reason}</td>
              <td>{event.about}</td>
              <td class="wrap">{event.message}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Yaml(props: { reference: string }) {
  const [text, setText] = useState("");
  useEffect(() => {
    let current = true;
    request<Done>("GET", `/api/object?${props.reference}`).then(
      (told) => current && setText(told.message),
      (error: unknown) => current && setText(String(error)),
    );
    return () => {
      current = false;
    };
  }, [props.reference]);
  return (
    <div class="scroll">
      <button type="button" onClick={() => void navigator.clipboard.writeText(text)}>
        Copy
      </button>
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}

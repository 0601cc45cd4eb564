// The clusters of a fleet: what each has, what of it is used, and how many jobs are there.

import type { FleetView, MemberRow } from "../../generated/views";
import { Grid } from "../components/card";
import { Link } from "../components/link";
import { Bar } from "../components/state";
import { Status } from "../components/status";
import { useNow } from "../now";
import { useView } from "../stream";
import { age, count, percent, resourceTitle } from "../units";

export function Fleet() {
  const live = useView<FleetView>("/api/views/fleet");
  const now = useNow(5000);
  const view = live.view;
  return (
    <main>
      <h1>Fleet</h1>
      <Status live={live} ready={view?.ready ?? false} />
      {view?.ready && view.order.length === 0 && (
        <p class="empty">
          There is no member that you may see. <code>unisono fleet join</code> brings one.
        </p>
      )}
      {view?.ready && view.order.length > 0 && (
        <>
          <p class="tiles">
            <span class="tile">
              <b>{view.order.length}</b> {view.order.length === 1 ? "member" : "members"}
            </span>
            <span class="tile">
              <b>{view.order.filter((key) => view.rows[key]?.ready).length}</b> ready
            </span>
            <Link class="tile state-waiting" to="/jobs?state=waiting">
              <b>{view.waiting}</b> {view.waiting === 1 ? "job" : "jobs"} in none of them
            </Link>
          </p>
          {view.order.map((key) => {
            const member = view.rows[key];
            return member && <Member key={key} member={member} now={now} />;
          })}
        </>
      )}
    </main>
  );
}

function Member(props: { member: MemberRow; now: number }) {
  const { member } = props;
  return (
    <section class="card" aria-label={`Member ${member.name}`}>
      <h2>
        <span class={member.ready ? "dot" : "dot bad"} aria-hidden="true" /> {member.name}{" "}
        <span class={member.ready ? "badge good" : "badge bad"}>{member.ready ? "ready" : "not ready"}</span>
      </h2>
      {!member.ready && member.message && <p class="problem">{member.message}</p>}
      {member.lost > 0 && <p class="problem">It has not answered for {age(member.lost, props.now)}.</p>}
      <dl class="facts">
        {(
          [
            ["Region", member.region],
            ["Version", member.version],
            ["Nodes ready", String(member.nodes)],
            ["Jobs", count(member.jobs, "job")],
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
      {member.resources.length > 0 && (
        <Grid label={`Resources of ${member.name}`} titles={["Resource", "Used", "Of", "Share", "Largest free block"]} right={[1, 2, 4]}>
          {member.resources.map((each) => (
            <tr key={each.name}>
              <td>
                {resourceTitle(each.name)} <span class="hint">{each.model}</span>
              </td>
              <td class="number">{each.used}</td>
              <td class="number">{each.total}</td>
              <td>
                <Bar share={each.share} label={`${each.name} in use`} text={percent(each.share)} />
              </td>
              <td class="number">{each.largest}</td>
            </tr>
          ))}
        </Grid>
      )}
    </section>
  );
}

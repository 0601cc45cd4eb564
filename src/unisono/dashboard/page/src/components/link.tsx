// A link within the page: a real one, so that it opens in another tab where the reader wants that.

import type { ComponentChildren } from "preact";
import { go } from "../route";

/** To a job of which only namespace and name are known: the table, with that job first. */
export function JobLink(props: { job: string }) {
  return <Link to={`/jobs?${new URLSearchParams({ state: "all", q: props.job })}`}>{props.job}</Link>;
}

export function Link(props: {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
  title?: string;
}) {
  const follow = (event: MouseEvent) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(props.to);
    window.scrollTo(0, 0);
  };
  return (
    <a
      href={props.to}
      onClick={follow}
      class={props.class ?? ""}
      title={props.title ?? ""}
      aria-current={props.current ? "page" : undefined}
    >
      {props.children}
    </a>
  );
}

// The page's address: a path that names the page, and a query with all that the reader has chosen.

import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

const listeners = new Set<() => void>();

function read(): Route {
  const path = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { path, query: new URLSearchParams(location.search) };
}

function told(): void {
  for (const listener of listeners) listener();
}

window.addEventListener("popstate", told);

/** Go to another address of the page. `replace`: without a step in the browser's history. */
export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  told();
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const look = () => setRoute(read());
    listeners.add(look);
    return () => void listeners.delete(look);
  }, []);
  return route;
}

/** The same address with some parameters changed; empty ones are left out. */
export function withQuery(route: Route, changes: Record<string, string>): string {
  const query = new URLSearchParams(route.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return `/${route.path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** The address of a job's page, from its row or from the key of one. */
export function jobAddress(job: { apiVersion: string; kind: string; namespace: string; name: string }): string {
  return `/job/${[job.apiVersion, job.kind, job.namespace, job.name].map(encodeURIComponent).join("/")}`;
}

// The page: who is signed in, which page the address names, and the way to the others.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Link } from "./components/link";
import { Fleet } from "./pages/fleet";
import { Job } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Queues } from "./pages/queues";
import { Scheduler } from "./pages/scheduler";
import { SignIn } from "./pages/signin";
import { Usage } from "./pages/usage";
import { WhatIf } from "./pages/whatif";
import { go, useRoute } from "./route";
import { Failure, signIn, signOut, useFleet, useUser } from "./session";
import "./style.css";

const PAGES = [
  ["overview", "Overview"],
  ["jobs", "Jobs"],
  ["queues", "Queues"],
  ["nodes", "Nodes"],
  ["whatif", "What if"],
  ["usage", "Usage"],
  ["scheduler", "Scheduler"],
  ["fleet", "Fleet"],
] as const;

function App() {
  const route = useRoute();
  const user = useUser();
  const fleet = useFleet(user);
  const [problem, setProblem] = useState("");
  const [code, setCode] = useState(codeOf(location.hash));
  useEffect(() => {
    const look = () => setCode(codeOf(location.hash));
    window.addEventListener("hashchange", look);
    return () => window.removeEventListener("hashchange", look);
  }, []);
  useEffect(() => {
    if (!code) return;
    // It signs in once: the address must not keep it.
    go(location.pathname + location.search, true);
    signIn({ code })
      .catch((error: unknown) => setProblem(error instanceof Failure ? error.message : String(error)))
      .finally(() => setCode(""));
  }, [code]);
  const page = route.path[0] || "overview";
  const title = PAGES.find(([name]) => name === page)?.[1] ?? route.path.at(-1) ?? "";
  useEffect(() => {
    document.title = title ? `${title} – Unisono` : "Unisono";
  }, [title]);
  if (code) return <p class="empty">Signing in …</p>;
  if (!user) return <SignIn key={problem} problem={problem} />;
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <header>
        <nav aria-label="Pages">
          <b>Unisono</b>
          {PAGES.filter(([name]) => name !== "fleet" || fleet || page === "fleet").map(([name, text]) => (
            <Link key={name} to={`/${name}`} current={page === name || (name === "jobs" && page === "job")}>
              {text}
            </Link>
          ))}
        </nav>
        <span class="user">
          {user}{" "}
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        </span>
      </header>
      <div id="content" tabIndex={-1}>
        <Content page={page} path={route.path} />
      </div>
    </>
  );
}

function Content(props: { page: string; path: string[] }) {
  const [, apiVersion, kind, namespace, name] = props.path;
  switch (props.page) {
    case "overview":
      return <Overview />;
    case "jobs":
      return <Jobs />;
    case "queues":
      return <Queues />;
    case "nodes":
      return <Nodes />;
    case "usage":
      return <Usage />;
    case "fleet":
      return <Fleet />;
    case "scheduler":
      return <Scheduler />;
    case "whatif":
      return <WhatIf />;
    case "job":
      if (apiVersion && kind && namespace && name)
        return <Job key={props.path.join("/")} apiVersion={apiVersion} kind={kind} namespace={namespace} name={name} />;
  }
  return (
    <main>
      <h1>There is no such page</h1>
      <p>
        <Link to="/overview">Overview</Link>
      </p>
    </main>
  );
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function codeOf(hash: string): string {
  return hash.startsWith("#code=") ? hash.slice("#code=".length) : "";
}

const root = document.getElementById("app");
if (root) render(<App />, root);

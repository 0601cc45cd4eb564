// Signing in: with the one-time link of `unisono dashboard`, or with a token of the API server.

import { useEffect, useState } from "preact/hooks";
import { Failure, signIn, wasSignedOut, whyEnded } from "../session";

/** `problem`: why a link did not work. */
export function SignIn(props: { problem: string }) {
  const [problem, setProblem] = useState(props.problem);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    // Who has signed out, or comes with a link that was no good, does not want to be signed in again at once.
    if (!props.problem && !wasSignedOut()) signIn({}).catch(() => undefined);
  }, []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const namespaces = String(form.get("namespaces") ?? "").split(/[\s,]+/).filter(Boolean);
    setBusy(true);
    try {
      await signIn({ token: String(form.get("token") ?? ""), namespaces });
    } catch (error) {
      setProblem(error instanceof Failure ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <main class="signin">
      <h1>Unisono</h1>
      {whyEnded() && (
        <p class="problem" role="alert">
          Your session has ended: {whyEnded()} Sign in again, here or with a new link in another tab, and this page goes on
          where you were.
        </p>
      )}
      <p>
        On this machine run <code>unisono dashboard</code>: it opens this page with a link that signs you in once.
      </p>
      <form onSubmit={submit}>
        <label>
          Or a token of the API server
          <input name="token" type="password" autocomplete="off" required spellcheck={false} />
        </label>
        <label>
          Namespaces to look into, where you may not see all
          <input name="namespaces" autocomplete="off" placeholder="team-a, team-b" spellcheck={false} />
        </label>
        <button type="submit" disabled={busy}>
          Sign in
        </button>
      </form>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <p class="hint">You see and change what your own rights allow; the dashboard has none itself.</p>
    </main>
  );
}

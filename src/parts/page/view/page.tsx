import { QueryClientProvider } from "@tanstack/preact-query";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { queries, session } from "../../../page/tools/client.ts";
import { ThemeButton } from "../../../page/tools/controls.tsx";
import { Shell } from "./shell.tsx";

/** Shows the page until jobgate rejects the token. */
function App() {
  /** Reason why a token is requested; empty for the first token. Undefined while no request was rejected. */
  const [refusal, setRefusal] = useState<string>();
  if (refusal !== undefined) {
    const logIn = (token: string) => {
      session.token = token;
      setRefusal(undefined);
    };
    return <Login problem={refusal} onToken={logIn} />;
  }
  const end = (problem: string) => {
    session.token = undefined;
    queries.clear();
    setRefusal(problem);
  };
  return (
    <QueryClientProvider client={queries}>
      <Shell onEnd={end} />
    </QueryClientProvider>
  );
}

function Login({ problem, onToken }: { problem: string; onToken: (token: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [fault, setFault] = useState(problem);
  useEffect(() => input.current?.focus(), []);
  function submit(event: SubmitEvent): void {
    event.preventDefault();
    const token = input.current?.value.trim() ?? "";
    // A header cannot carry anything else.
    if (/^[\x21-\x7e]+$/.test(token)) onToken(token);
    else setFault("A token is made of visible ASCII characters, without blanks.");
    input.current?.focus();
  }
  return (
    <main class="out">
      <form class="panel fields" autoComplete="off" onSubmit={submit}>
        <h1>
          <img src="page/shared/icon.svg" alt="" width="24" height="24" /> Log in
        </h1>
        <p>
          This jobgate asks for the operator's token: <code>operator.token</code> in its configuration.
        </p>
        <label>
          <span>Token</span>
          <input
            ref={input}
            type="password"
            required
            autoComplete="current-password"
            spellcheck={false}
            aria-invalid={fault !== ""}
            aria-describedby="login-problem"
          />
        </label>
        <p id="login-problem" class="problem" role="alert">
          {fault}
        </p>
        <button type="submit" class="primary">
          Log in
        </button>
        <p class="muted">It is kept in this tab only, and forgotten when you close it.</p>
      </form>
      <ThemeButton />
    </main>
  );
}

const place = document.getElementById("page");
if (place !== null) {
  place.replaceChildren();
  render(<App />, place);
}

// The state of a job as a word with a colour; the word alone says it too.

export function State(props: { state: string; phase?: string; text?: string }) {
  return (
    <span class={`state state-${props.state}`} title={props.phase ? `phase ${props.phase}` : ""}>
      <span class="state-word">{props.text ?? props.state}</span>
    </span>
  );
}

/** A share from 0 to 1 as a bar with its text. */
export function Bar(props: { share: number; label: string; text: string }) {
  const width = `${Math.min(100, Math.max(0, props.share * 100))}%`;
  return (
    <span class="bar" role="img" aria-label={`${props.label}: ${props.text}`}>
      <span class={props.share > 0.97 ? "bar-fill full" : "bar-fill"} style={{ width }} />
      <span class="bar-text">{props.text}</span>
    </span>
  );
}

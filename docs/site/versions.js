// The versions of the site, from a file at its root: every version, however old, lists all that are there now.
const chooser = document.querySelector(".versions select");
const root = document.documentElement.dataset.content_root + chooser.dataset.root;

async function choose() {
  const answer = await fetch(root + "versions.json");
  if (!answer.ok) return;
  for (const { name, path } of await answer.json()) {
    const own = path === chooser.dataset.own;
    chooser.add(new Option(name, path, own, own));
  }
  chooser.closest(".versions").hidden = chooser.options.length < 2;
  chooser.addEventListener("change", () => location.assign(root + chooser.value));
}

choose().catch(() => {}); // files that are opened without a server have no list

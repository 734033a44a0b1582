// Draws the charts of a report, and lets the legend hide a policy in all of them at once.
const specs = JSON.parse(document.getElementById("charts").textContent);
const tip = document.getElementById("tip");
const views = [];

// Texts are set as texts: whatever a run is called, it is never read as markup.
function pointed(_, event, __, value) {
  tip.replaceChildren();
  tip.style.display = value && typeof value === "object" ? "block" : "none";
  if (tip.style.display === "none") return;
  const table = document.createElement("table");
  for (const [name, text] of Object.entries(value)) {
    const row = table.insertRow();
    row.insertCell().textContent = name;
    row.insertCell().textContent = text;
  }
  tip.append(table);
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, event.clientY + box.height + 20 > innerHeight ? event.clientY - box.height - 10 : event.clientY + 14) + "px";
}

// Panels below each other cannot follow their container by themselves: their own width is what is left of it.
function fit({ view, holder }) {
  if (!("child_width" in view.getState().signals)) return;
  const drawn = holder.querySelector("svg").width.baseVal.value;
  const width = Math.round(view.signal("child_width") + holder.clientWidth - drawn - 1);
  if (Math.abs(width - view.signal("child_width")) > 1 && width > 60) view.signal("child_width", width).resize().run();
}

// Without a curve an axis has no end, which is no fault: only errors are worth a line in the console.
const options = { mode: "vega", renderer: "svg", actions: false, tooltip: pointed, logLevel: 1 };
for (const [name, spec] of Object.entries(specs)) {
  const holder = document.getElementById(name);
  const { view } = await vegaEmbed(holder, spec, options);
  views.push({ view, holder });
  fit(views.at(-1));
}

const buttons = [...document.querySelectorAll("nav.legend button[data-run]")];
const everyone = document.getElementById("everyone");

function show() {
  const hidden = buttons.filter((b) => b.getAttribute("aria-pressed") === "false").map((b) => b.dataset.run);
  for (const { view } of views) view.signal("hidden", hidden).resize().run();
  for (const row of document.querySelectorAll("tr[data-run]")) row.classList.toggle("hidden", hidden.includes(row.dataset.run));
  everyone.hidden = hidden.length === 0;
}

for (const button of buttons)
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
    show();
  });
everyone.addEventListener("click", () => {
  for (const button of buttons) button.setAttribute("aria-pressed", "true");
  show();
});

function refit() {
  for (const one of views) fit(one);
}
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(refit, 100);
});
document.documentElement.dataset.drawn = String(views.length);

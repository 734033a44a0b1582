// Follows a run: news come as one stream, charts are drawn once and get new rows.  Texts are set as texts, never as markup.
const token = document.querySelector("meta[name=token]").content;
const at = (path) => `${path}?token=${token}`;
const by = (id) => document.getElementById(id);
const tip = by("tip");
let form = null;
let charts = {};
let latest = null;
let busy = false;

function make(kind, text, name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = name;
  return made;
}

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

// Without "eval": the page's rules forbid it.
const options = { mode: "vega", renderer: "svg", actions: false, tooltip: pointed, logLevel: 1, ast: true, defaultStyle: false };

async function prepare(news) {
  const found = await (await fetch(at("charts"))).json();
  for (const { view } of Object.values(charts)) view?.finalize();
  charts = {};
  by("charts").replaceChildren();
  for (const [name, about] of Object.entries(found)) {
    const section = make("section", "");
    const holder = make("div", "", "chart");
    const reading = make("p", "", "reading");
    holder.id = name;
    holder.setAttribute("role", "img");
    holder.setAttribute("aria-label", about.title);
    section.append(make("h2", about.title), reading, holder);
    by("charts").append(section);
    charts[name] = { ...about, holder, paragraph: reading, view: null };
  }
  form = news.form;
}

function rows(columns) {
  const names = Object.keys(columns);
  const count = names.length ? columns[names[0]].length : 0;
  return Array.from({ length: count }, (_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

async function draw(news) {
  if (news.form !== form) await prepare(news);
  for (const [name, chart] of Object.entries(charts)) {
    const data = rows(news.charts[name] ?? {});
    chart.paragraph.textContent = data.length ? chart.reading : chart.nothing;
    chart.holder.hidden = data.length === 0;
    if (!data.length) continue;
    if (!chart.view) chart.view = (await vegaEmbed(chart.holder, chart.spec, options)).view;
    await chart.view.data("rows", data).resize().runAsync();
  }
  document.documentElement.dataset.drawn = String(Object.values(charts).filter((chart) => chart.view).length);
}

function members(now) {
  by("now-title").textContent = now.under_way ? `Clients in round ${now.round}, which is running` : now.round ? `Clients in round ${now.round}, the latest one` : "Clients in the round";
  const chips = make("div", "", "chips");
  for (const one of now.members) {
    const said = now.under_way ? one.name : one.fault ? `${one.name}: ${one.fault}` : one.seconds == null ? one.name : `${one.name}: ${seconds(one.seconds)}`;
    chips.append(make("span", said, `chip${one.fault ? " wrong" : ""}${now.under_way ? " busy" : ""}`));
  }
  if (now.more) chips.append(make("span", `and ${now.more} more`, "chip"));
  by("now").replaceChildren(now.members.length ? chips : make("p", "No client yet.", "reading"));
}

function seconds(value) {
  if (value === null) return "unknown";
  return `${value < 10 ? value.toPrecision(2) : value.toFixed(0)} s`;
}

function fill(id, entries, titles, cells, nothing) {
  const table = by(id);
  table.replaceChildren();
  const head = entries.length ? table.createTHead().insertRow() : null;
  for (const title of head ? titles : []) head.append(make("th", title));
  const body = table.createTBody();
  for (const entry of entries) {
    const row = body.insertRow();
    for (const cell of cells(entry)) {
      const made = row.insertCell();
      if (typeof cell === "string") made.textContent = made.title = cell;
      else made.append(cell), (made.className = "meter");
    }
    if (entry.near) row.className = "wrong";
  }
  if (!entries.length) body.insertRow().insertCell().textContent = nothing;
}

function meter(share) {
  const made = document.createElement("meter");
  Object.assign(made, { min: 0, max: 1, low: 0.1, optimum: 1, value: share });
  return made;
}

function alarmed(found, state) {
  const shown = found.map((alarm) => {
    const made = make("p", alarm.text, `alarm ${alarm.kind}`);
    made.dataset.kind = alarm.kind;
    made.dataset.clients = (alarm.clients ?? []).join(" ");
    return made;
  });
  if (!shown.length) shown.push(make("p", state === "finished" ? "The run is finished. Nothing needs your attention." : "Nothing needs your attention.", "alarm none"));
  const before = [...by("alarms").children].map((one) => one.textContent).join("\n");
  if (before !== shown.map((one) => one.textContent).join("\n")) by("alarms").replaceChildren(...shown);
}

async function tell(news) {
  alarmed(news.alarms, news.state);
  by("lists").hidden = by("bar").hidden = news.state === "waiting";
  if (news.state === "waiting") return;
  by("title").textContent = `${news.kind} run: ${news.title}`;
  by("facts").textContent = `${news.name} · ${news.clients.toLocaleString("en")} clients`;
  const share = news.planned ? Math.min(1, news.rounds / news.planned) : 0;
  by("bar").hidden = !news.planned;
  by("bar").firstElementChild.style.width = `${100 * share}%`;
  by("bar").setAttribute("aria-valuenow", news.rounds);
  by("bar").setAttribute("aria-valuemax", news.planned ?? news.rounds);
  const said = [`${news.said} rounds`, news.end];
  if (news.pace && news.state === "running") said.push(`${news.pace} per round`);
  if (news.accuracy !== null && news.best !== null) said.push(`accuracy ${news.accuracy.toFixed(1)} %, best ${news.best.toFixed(1)} %`);
  by("progress").textContent = said.join(" · ");
  document.title = `${news.said} rounds: pausefl watch`;
  members(news.now);
  fill("slow", news.slow, ["client", "seconds", "answers"], (one) => [one.name, seconds(one.seconds), `${one.answered} of ${one.asked}`], "No client has answered yet.");
  fill("budgets", news.budgets, ["client", "", "left"], (one) => [one.name, meter(one.left ?? 0), one.left === null ? "unknown" : `${(100 * one.left).toFixed(0)} %`], "This run has no budget, or none is known yet.");
  await draw(news);
  document.documentElement.dataset.rounds = String(news.rounds);
}

// While one is drawn, only the newest of those that come is kept.
async function turn() {
  if (busy) return;
  busy = true;
  while (latest) {
    const news = latest;
    latest = null;
    await tell(news);
  }
  busy = false;
}

const source = new EventSource(at("events"));
source.onmessage = (event) => {
  by("link").textContent = "";
  latest = JSON.parse(event.data);
  turn();
};
source.onerror = () => {
  by("link").textContent = source.readyState === EventSource.CLOSED
    ? "The connection is lost. Start 'pausefl watch' again, and open the address that it prints."
    : "The connection is lost. The page will try again.";
};

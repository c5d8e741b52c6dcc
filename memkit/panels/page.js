// A panel in the browser. Python says what there is (spec) and what it is set to (values); this makes native elements
// of it, sends back what the user does, and keeps at most one change on its way: the newest wins.

let panels = 0;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// One control: its elements, how it shows a value, and what it sends.
function control(declared, id, send) {
  const { name, label, help } = declared;
  const set = (value, live) => send({ [name]: value }, live);
  if (declared.kind === "choice") {
    const options = declared.choices.map((choice) => element("option", { value: choice }, choice));
    if (declared.nullable) options.unshift(element("option", { value: "" }, "(none)"));
    const box = element("select", { id, title: help, onchange: () => set(box.value || null) }, ...options);
    return { dom: named(label, id, box), show: (value) => (box.value = value ?? "") };
  }
  if (declared.kind === "tick") {
    const box = element("input", { id, type: "checkbox", title: help, onchange: () => set(box.checked) });
    const dom = element("div", { class: "one row" }, box, element("label", { for: id }, label));
    return { dom, show: (value) => (box.checked = value) };
  }
  if (declared.kind === "number") return number(declared, id, set);
  const box = element("input", { id, type: "text", title: help, onchange: () => set(box.value), spellcheck: "false" });
  return { dom: named(label, id, box), show: (value) => (box.value = value ?? "") };
}

function named(label, id, box) {
  return element("div", { class: "one" }, element("label", { for: id }, label), box);
}

// A slider and a box for the same number; where it may be none, a box to tick for "automatic".
function number(declared, id, set) {
  const { label, help, low, high, step, least, most, whole, nullable } = declared;
  const clamp = (value) => Math.min(most ?? Infinity, Math.max(least ?? -Infinity, whole ? Math.round(value) : value));
  const slider = element("input", {
    id, type: "range", min: low, max: high, step, title: help,
    oninput: () => { box.value = slider.value; say(); set(Number(slider.value), true); },
    onchange: () => set(Number(slider.value), false),
  });
  const box = element("input", {
    type: "number", min: least, max: most, step: whole ? 1 : "any", title: help, "aria-label": `${label}, number`,
    onchange: () => { if (box.value !== "") set(clamp(Number(box.value)), false); },
  });
  const say = () => slider.setAttribute("aria-valuetext", `${box.value} ${label.split(", ")[1] ?? ""}`.trim());
  const row = element("div", { class: "row" }, slider, box);
  const dom = named(label, id, row);
  let auto = null;
  if (nullable) {
    auto = element("input", {
      id: `${id}-auto`, type: "checkbox", title: "Leave it to memkit", "aria-label": `${label}: automatic`,
      onchange: () => set(auto.checked ? null : Number(slider.value), false),
    });
    row.append(element("span", { class: "row" }, auto, "auto"));
  }
  const show = (value) => {
    if (auto) auto.checked = value === null;
    if (value !== null && document.activeElement !== box) box.value = value;
    if (value === null) box.value = "";
    else if (document.activeElement !== slider || Number(slider.value) !== value) slider.value = value;
    say();
  };
  return { dom, show };
}

function render({ model, el }) {
  const id = `mkp${++panels}`;
  let waiting = false, next = null, url = null;

  const send = (message) => {
    if (waiting && message.set && next?.set) next = { set: { ...next.set, ...message.set }, live: message.live };
    else if (waiting) next = message;
    else {
      waiting = true;
      root.classList.add("busy");
      model.send(message);
    }
  };
  const answered = () => {
    waiting = false;
    if (next) { const message = next; next = null; send(message); } else root.classList.remove("busy");
  };

  const spec = model.get("spec");
  const controls = {};
  const groups = spec.groups.map((group) => {
    const own = group.controls.map((declared) => {
      const made = control(declared, `${id}-${declared.name}`, (set, live) => send({ set, live: Boolean(live) }));
      controls[declared.name] = made;
      return made.dom;
    });
    return element("fieldset", {}, element("legend", {}, group.name), ...own);
  });
  const press = (name) => send({ press: name });
  const buttons = spec.actions.map(({ name, label, key }) =>
    element("button", { type: "button", title: `Key: ${key}`, "data-press": name, onclick: () => press(name) }, label));
  const keys = element("table", { class: "keys" }, element("caption", {}, "Keys, outside of a text"),
    element("tbody", {}, ...[...spec.actions.map(({ key, label }) => [key, label]), ["arrows", "move a slider"],
      ["Enter", "open a row"], ["?", "show and hide this"]].map(([key, label]) =>
      element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, label)))));
  const help = element("div", { hidden: true, id: `${id}-keys` }, keys);
  const toggle = () => { help.hidden = !help.hidden; ask.setAttribute("aria-expanded", String(!help.hidden)); };
  const ask = element("button", { type: "button", "aria-expanded": "false", "aria-controls": `${id}-keys`, onclick: toggle, title: "Keys" }, "?");

  const said = element("output", { class: "said", role: "status" });
  const picture = element("img", { alt: "" });
  const code = element("code", { class: "code", tabindex: "0", "aria-label": "code that gives this table" });
  const body = element("div", { class: "body" });
  const root = element("section", { class: "mkp", "aria-label": spec.title },
    element("div", { class: "top" }, element("b", {}, spec.title), ...buttons, ask), help,
    element("div", { class: "all" }, element("div", { class: "set" }, ...groups),
      element("div", { class: "seen" }, said, element("div", { class: "pic" }, picture), code, body)));

  const pick = (event) => event.target.closest("[data-pick]")?.dataset.pick;
  body.addEventListener("click", (event) => { const row = pick(event); if (row !== undefined) send({ pick: row }); });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has keys of its own
    const row = event.key === "Enter" ? pick(event) : undefined;
    if (row !== undefined) return send({ pick: row });
    const typing = event.target.matches("input:is([type=text],[type=number]),select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") return toggle();
    const action = spec.actions.find(({ key }) => key === event.key);
    if (action) { event.preventDefault(); press(action.name); }
  });

  const show = () => {
    for (const [name, value] of Object.entries(model.get("values"))) controls[name]?.show(value);
    const bytes = model.get("picture");
    if (url) URL.revokeObjectURL(url);
    url = bytes.byteLength ? URL.createObjectURL(new Blob([bytes], { type: "image/png" })) : null;
    if (url) picture.src = url;
    picture.hidden = !url;
    picture.alt = model.get("words");
    code.textContent = model.get("code");
    body.innerHTML = model.get("body"); // made by memkit, each word of the user's escaped
    for (const row of body.querySelectorAll("[data-pick]")) row.tabIndex = 0;
    const error = model.get("error");
    said.textContent = error || model.get("status");
    said.classList.toggle("wrong", Boolean(error));
    said.dataset.n = model.get("n");
    answered();
  };
  model.on("change:n", show);
  el.append(root);
  show();
  return () => { model.off("change:n", show); if (url) URL.revokeObjectURL(url); };
}

export default { render };

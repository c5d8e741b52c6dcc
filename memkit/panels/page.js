// A panel in the browser. Python says what there is (spec) and what it is set to (values); this makes native elements
// of it, sends back what the user does, and keeps at most one message on its way: of what waits, the newest wins.

// What takes long is worked out when a slider has rested so many milliseconds: between two keys that are held or
// pressed one after the other there is no time for it.
const REST = 250;
// What takes longer is said in words: a map that is laid out, topics that are found.
const LONG = 400;

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
  return { dom: named(label, id, box, declared.hint), show: (value) => (box.value = value ?? "") };
}

function named(label, id, box, hint) {
  const head = element("div", { class: "head" }, element("label", { for: id }, label));
  if (hint) head.append(element("small", { class: "hint" }, hint));
  return element("div", { class: "one" }, head, box, element("small", { class: "note" }));
}

// A slider and a box for the same number; where it may be none, a box to tick for "automatic".
function number(declared, id, set) {
  const { label, help, low, high, step, least, most, whole, nullable } = declared;
  const clamp = (value) => Math.min(most ?? Infinity, Math.max(least ?? -Infinity, whole ? Math.round(value) : value));
  const slider = element("input", {
    id, type: "range", min: low, max: high, step, title: help,
    oninput: () => { box.value = slider.value; say(); set(Number(slider.value), "live"); },
    onchange: () => set(Number(slider.value), "rest"),
    onpointerdown: () => set(null, "grab"),
  });
  const box = element("input", {
    type: "number", min: least, max: most, step: whole ? 1 : "any", title: help, "aria-label": `${label}, number`,
    onchange: () => { if (box.value !== "") set(clamp(Number(box.value))); },
  });
  const say = () => slider.setAttribute("aria-valuetext", `${box.value || words.textContent} ${label.split(", ")[1] ?? ""}`.trim());
  const row = element("div", { class: "row" }, slider, box);
  const dom = named(label, id, row);
  let auto = null, chosen = null;
  const words = element("span", {}, "auto");
  if (nullable) {
    auto = element("input", {
      id: `${id}-auto`, type: "checkbox", title: "Let memkit choose the value", "aria-label": `${label}: automatic`,
      onchange: () => set(auto.checked ? null : chosen ?? Number(slider.value)),
    });
    row.append(element("label", { class: "row" }, auto, words));
  }
  const show = (value, automatic) => {
    if (auto) auto.checked = value === null;
    chosen = value === null ? automatic ?? null : null; // where the slider starts once the box is unticked
    words.textContent = chosen === null ? "auto" : `auto = ${+chosen.toPrecision(3)}`;
    row.classList.toggle("auto", value === null);
    if (value !== null && document.activeElement !== box) box.value = value;
    if (value === null) {
      box.value = "";
      if (chosen !== null) slider.value = chosen;
    } else if (document.activeElement !== slider || Number(slider.value) !== value) slider.value = value;
    say();
  };
  return { dom, show };
}

// Things to pick from are one stop for Tab; arrows, Home and End go from one to the next.
const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

function picks(place) {
  return [...(place.closest("table,[data-list]") ?? place).querySelectorAll("[data-pick]")];
}

function walk(event) {
  const now = event.target.closest("[data-pick]");
  if (!now || !(event.key in STEPS)) return false;
  const all = picks(now);
  const next = all[Math.min(all.length - 1, Math.max(0, all.indexOf(now) + STEPS[event.key]))];
  for (const one of all) one.tabIndex = one === next ? 0 : -1;
  next.focus();
  event.preventDefault();
  return true;
}

// New HTML in a place; what had the focus has it again, so that a key can be pressed twice.
function fill(place, text) {
  if (place.memkit === text) return;
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const had = focused?.dataset.pick, at = focused ? picks(focused).indexOf(focused) : -1;
  const list = focused ? [...place.querySelectorAll("table,[data-list]")].indexOf(focused.closest("table,[data-list]")) : -1;
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  const across = [...place.querySelectorAll("[role=region]")].map((one) => one.scrollLeft);
  place.memkit = text;
  place.innerHTML = text; // made by memkit, each word of the user's escaped
  place.querySelectorAll("details").forEach((one, at) => { if (open[at]) one.open = true; });
  place.querySelectorAll("[role=region]").forEach((one, at) => { if (across[at]) one.scrollLeft = across[at]; });
  const lists = [...place.querySelectorAll("table,[data-list]")];
  for (const one of lists) picks(one).forEach((row, at) => (row.tabIndex = at ? -1 : 0));
  const scroll = () => place.querySelectorAll("[data-scroll]").forEach((one) => {
    const frame = one.parentElement.closest("[tabindex]");
    if (frame) frame.scrollTop = one.offsetTop - 40;
  });
  if (place.isConnected) scroll(); else requestAnimationFrame(scroll);
  if (!focused) return;
  const rows = list >= 0 && lists[list] ? picks(lists[list]) : [];
  const again = rows.find((row) => row.dataset.pick === had) ?? rows[Math.min(at, rows.length - 1)]
    ?? place.querySelector("[data-pick]");
  if (again) { for (const row of rows) row.tabIndex = row === again ? 0 : -1; again.focus(); }
}

// Whether the ground is dark is seen by the colour that the page writes in, whatever made it so.
function isDark(root) {
  // Nothing is known of what is not in the page yet.
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(root).color.match(/[\d.]+/g) ?? []).map(Number);
  return 0.3 * red + 0.6 * green + 0.1 * blue > 128;
}

function render({ model, el, host, signal }) {
  const id = `mkp${Math.random().toString(36).slice(2)}`; // each panel loads this file anew: a count would not do
  const live = element("div", { style: "height:100%", role: "img" }); // another widget, in place of the picture
  let embedded = null, isPlain = false;
  let spec = null, controls = {}, parts = {}, changed = false, late = null;
  let onTheWay = null, sent = 0; // the message that is not answered yet; how many were sent
  const queue = []; // what waits behind it
  let drag = null, drags = 0; // of the slider that is dragged: its name, that of the drag, and the timer of its rest

  // What the user does. It is drawn in full, or comes from a slider that has a rest of its own: only here may a rest
  // that was waited for be forgotten.
  const send = (message) => {
    if (drag) clearTimeout(drag.resting);
    if (!message.drag) drag = null;
    deliver(message);
  };
  // Of one drag the newest value is sent, and of other things that were done the last one.
  const deliver = (message) => {
    const last = queue.at(-1);
    if (message.set && last?.set && message.drag === last.drag) queue.pop(), (message.set = { ...last.set, ...message.set });
    else if (!message.set && last && !last.set) queue.pop();
    queue.push(message);
    forward();
  };
  const forward = () => {
    if (onTheWay || !queue.length) return;
    onTheWay = queue.shift();
    sent += 1;
    root.classList.add("busy");
    root.setAttribute("aria-busy", "true");
    clearTimeout(late);
    const { tab } = onTheWay;
    late = setTimeout(() => (parts.said.textContent = tab ? `opening ${tab}` : "working"), LONG);
    model.send({ ...onTheWay, from: [id, sent] });
  };
  const answered = () => {
    clearTimeout(late);
    root.classList.remove("busy");
    root.removeAttribute("aria-busy");
    forward();
  };
  // A drawing that is older than what was set last does not move the control back.
  const isSaid = (name) => [onTheWay, ...queue].some((message) => message?.set && name in message.set);

  // A slider says that it is taken, that it moves, and that it is let go: then a rest begins. What it sends from one
  // grab or rest to the next is one drag, and one step to undo.
  const slide = (name, set, how) => {
    if (how === "grab") { if (drag) drag.isOver = true; return; }
    if (drag) clearTimeout(drag.resting);
    if (how === "live") {
      if (drag?.name !== name || drag.isOver) drag = { name, id: `${id}-${++drags}` };
      drag.set = set;
      send({ set, live: true, drag: drag.id });
    } else if (drag) drag.resting = setTimeout(() => {
      const { set, id } = drag;
      drag = null;
      deliver({ set, live: false, drag: id });
    }, REST);
    else if (set) send({ set, live: false, drag: null });
  };
  // One that is let go where it was taken does not change, and one may be let go outside of it.
  const letGo = () => { if (drag) slide(drag.name, null, "rest"); };
  const press = (name) => send({ press: name });
  const root = element("section", { class: "mkp", tabindex: -1 });

  const profiles = () => {
    if (!spec.profile) return [];
    const preset = element("select", { id: `${id}-preset`, onchange: () => { if (preset.value) send({ preset: preset.value }); preset.value = ""; } },
      ...["", ...spec.presets].map((name) => element("option", { value: name }, name || "(choose)")));
    const file = element("input", { id: `${id}-profile`, type: "text", value: root.querySelector(".profile input")?.value ?? "memkit.toml", spellcheck: "false" });
    const act = (name, label) => element("button", { type: "button", onclick: () => send({ [name]: file.value }) }, label);
    return [element("details", { class: "profile", "aria-label": "presets and profile" }, element("summary", {}, "presets and profile"),
      ...(spec.presets.length ? [named("preset", preset.id, preset)] : []), named("profile file, TOML or JSON", file.id, file),
      element("div", { class: "row" }, act("load", "Load profile"), act("save", "Save profile")))];
  };

  // The widget is put into the page once, when it is first shown, and stays as it is while another panel is.
  let waited = null;
  const embed = (inner) => {
    if (!inner || waited) return;
    waited = host.getModel(inner).then(async (one) => {
      embedded = one;
      ground();
      await (await host.getWidget(inner)).render({ el: live, signal });
    });
  };

  // A row of tabs; those that have nothing to show here stand under a fold with the reason, open where one is shown.
  const tabs = ({ label, names, own, others }) => {
    const button = (name, more) => element("button", { type: "button", "data-tab": name, onclick: () => send({ tab: name }), ...more }, name);
    const list = names.map((name) => button(name, { role: "tab", "aria-selected": String(name === own), tabindex: name === own ? 0 : -1 }));
    if (list.length && !names.includes(own)) list[0].tabIndex = 0;
    const rest = Object.entries(others), open = own in others || Boolean(root.querySelector("details.others")?.open);
    return [
      ...(list.length ? [element("div", { class: "tabs", role: "tablist", "aria-label": label }, ...list)] : []),
      ...(rest.length ? [element("details", { class: "others", open, "aria-label": `${label} with nothing to judge here` },
        element("summary", {}, `${rest.length} of the ${label} ${rest.length > 1 ? "have" : "has"} nothing to judge here`),
        ...rest.map(([name, why]) => element("div", {}, button(name, { "aria-pressed": String(name === own) }), ` ${why}`)))] : []),
    ];
  };

  const build = () => {
    spec = model.get("spec");
    controls = {};
    const groups = spec.groups.map((group) => {
      const made = group.controls.map((declared) => {
        const one = control(declared, `${id}-${declared.name}`, (set, how) =>
          how ? slide(declared.name, set, how) : send({ set, live: false, drag: null }));
        controls[declared.name] = one;
        return one.dom;
      });
      if (!group.closed) return element("fieldset", {}, element("legend", {}, group.name), ...made);
      return element("details", { class: "more", "aria-label": group.name }, element("summary", {}, group.name), element("fieldset", { "aria-label": group.name }, ...made));
    });
    const buttons = spec.actions.map(({ name, label, key }) =>
      element("button", { type: "button", title: `Key: ${key}`, "data-press": name, onclick: () => press(name) }, label));
    const rows = [...spec.actions.map(({ key, label }) => [key, label]), ["arrows", "move a slider; go to the next row"],
      ["Enter", "open a row"], ["?", "show and hide this"]];
    const help = element("div", { hidden: true, id: `${id}-keys` }, element("table", { class: "keys" },
      element("caption", {}, "Keys, outside of a text box"), element("tbody", {}, ...rows.map(([key, label]) =>
        element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, label))))));
    parts = {
      help,
      ask: element("button", { type: "button", "aria-label": "Keys ?", "aria-expanded": "false", "aria-controls": help.id, title: "Keys", onclick: () => toggle() }, "?"),
      said: element("output", { class: "said", role: "status" }),
      picture: element("div", { class: "pic" }),
      words: element("pre", {}),
      code: element("code", { class: "code", tabindex: 0, role: "textbox", "aria-readonly": "true", "aria-label": "code that gives this table" }),
      strip: element("div", { class: "strip" }),
      body: element("div", { class: "body" }),
    };
    root.setAttribute("aria-label", spec.title);
    const top = element("div", { class: "top" }, element("b", {}, spec.title), ...buttons, parts.ask);
    const set = element("div", { class: "left" }, element("div", { class: "set" }, ...groups, ...profiles()), parts.strip);
    const pic = parts.picture, inner = spec.ground && host && model.get("inner");
    embed(inner);
    if (spec.actions.some(({ key }) => key.startsWith("Arrow"))) {
      pic.tabIndex = 0;
      pic.setAttribute("role", "group");
      pic.setAttribute("aria-label", "picture: arrow keys walk in it");
    }
    if (inner) {
      pic.classList.add("live");
      pic.append(live);
    }
    root.replaceChildren(...spec.tabs.flatMap(tabs), top, help, element("div", { class: spec.wide ? "all wide" : groups.length ? "all" : "all alone" }, set, element("div", { class: "seen" },
        ...(spec.reads ? [parts.body] : []), element("div", {}, element("div", { class: "shown" }, pic, element("div", { class: "side" }, parts.said,
          element("details", { "aria-label": "picture in words" }, element("summary", {}, "picture in words"), parts.words))), parts.code), ...(spec.reads ? [] : [parts.body]))));
  };
  const toggle = () => {
    parts.help.hidden = !parts.help.hidden;
    parts.ask.setAttribute("aria-expanded", String(!parts.help.hidden));
  };

  const pick = (event) => event.target.closest("[data-pick]")?.dataset.pick;
  root.addEventListener("click", (event) => {
    const row = pick(event), button = event.target.closest("[data-do]");
    if (button) press(button.dataset.do);
    else if (row !== undefined) send({ pick: row });
    if (!root.contains(document.activeElement)) root.focus({ preventScroll: true }); // so that its keys work
  });
  root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has keys of its own
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = event.key === "Enter" || event.key === " " ? pick(event) : undefined;
    if (row !== undefined) { event.preventDefault(); return send({ pick: row }); }
    const tab = event.target.closest("[role=tab]");
    if (tab && event.key in STEPS) {
      const row = [...tab.parentElement.children], at = row.indexOf(tab) + STEPS[event.key];
      event.preventDefault();
      return send({ tab: row[Math.min(row.length - 1, Math.max(0, at))].dataset.tab });
    }
    if (walk(event)) return;
    const typing = event.target.matches("input:is([type=text],[type=number]),select");
    if (typing || (event.target.matches("input[type=range]") && event.key in STEPS)) return;
    if (event.key === "?") return toggle();
    const action = spec.actions.find(({ key }) => key === event.key);
    if (action) { event.preventDefault(); press(action.name); }
  });
  // Left alone, the panel is kept in the notebook as it stands, for who opens the file without a kernel.
  root.addEventListener("focusout", () => setTimeout(() => {
    if (changed && root.isConnected && !root.contains(document.activeElement) && document.hasFocus()) {
      changed = false;
      model.send({ left: true });
    }
  }, 400));

  const show = () => {
    if (JSON.stringify(spec) !== JSON.stringify(model.get("spec"))) {
      const focused = root.contains(document.activeElement) ? document.activeElement : null, title = spec?.title;
      const open = [...root.querySelectorAll(".set details[open]")].map((one) => one.getAttribute("aria-label"));
      build();
      if (spec.title === title) for (const one of root.querySelectorAll(".set details")) one.open = open.includes(one.getAttribute("aria-label"));
      const row = focused?.closest("[role=tablist]")?.getAttribute("aria-label");
      if (row) root.querySelector(`[role=tablist][aria-label="${row}"] [aria-selected=true]`)?.focus();
      else if (focused?.dataset.tab) root.querySelector(`.others [data-tab="${focused.dataset.tab}"]`)?.focus();
      else if (focused?.id) document.getElementById(focused.id)?.focus(); // a control that another one made appear
    }
    changed = Boolean(parts.said.dataset.n) || changed;
    if (root.isConnected) ground(); else requestAnimationFrame(ground); // JupyterLab draws first, and puts it into the page then
    const heard = model.get("heard"), isAnswer = !heard || heard[id] >= sent;
    if (isAnswer) onTheWay = null;
    const error = model.get("error"); // what was refused stays in its box, to be mended
    for (const [name, value] of Object.entries(model.get("values")))
      if (!isSaid(name) && (!error || document.activeElement?.id !== `${id}-${name}`)) controls[name]?.show(value, model.get("automatic")[name]);
    for (const [name, made] of Object.entries(controls)) {
      const note = made.dom.querySelector(".note");
      if (note) note.textContent = model.get("notes")[name] ?? "";
    }
    if (live.parentElement !== parts.picture) fill(parts.picture, model.get("picture"));
    live.setAttribute("aria-label", model.get("words"));
    parts.words.textContent = model.get("words");
    parts.code.textContent = model.get("code");
    fill(parts.strip, model.get("strip"));
    fill(parts.body, model.get("body"));
    parts.said.textContent = error || model.get("summary");
    parts.said.classList.toggle("wrong", Boolean(error));
    parts.said.dataset.n = model.get("n");
    if (isAnswer) answered();
    if (spec.ground && !host && !isPlain) { // what loads this page cannot put a widget into it
      isPlain = true;
      deliver({ plain: true });
    }
  };
  const ground = () => {
    const dark = isDark(root);
    root.classList.toggle("dark", dark);
    for (const [name, value] of Object.entries((embedded && spec.ground?.[dark ? "dark" : "light"]) ?? {})) embedded.set(name, value);
  };
  model.on("change:n", show);
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, letGo);
  el.append(root);
  show();
  return () => {
    model.off("change:n", show);
    for (const name of ["pointerup", "pointercancel"]) document.removeEventListener(name, letGo);
  };
}

export default { render };

// Tables, pages of their entries, searches, and small objects of the program. The switch pages and searches; here is what it answers, which is requested
// again while the view is shown.

import { each, el, percent, rate, say, set, whole } from './dom.js';

export const title = 'Tables';

const LIMIT = 50;
// Of the time, one part in so many is spent on repeated requests of a kind.
const REST = 5;
const OBJECTS = [['defaults', 'Default actions'], ['groups', 'Groups'], ['members', 'Members'], ['counters', 'Counters'], ['meters', 'Meters'], ['registers', 'Registers'],
  ['value_sets', 'Value sets'], ['multicast', 'Multicast groups'], ['mirrors', 'Mirror sessions']];

/** Repeats requests, less often where they take long, as the search of a large table does. */
function repeated(work) {
  let due = 0;
  return async () => {
    if (performance.now() < due) return;
    due = Infinity;
    const began = performance.now();
    await work();
    due = began + REST * (performance.now() - began);
  };
}

/** Whether a document differs from the last one: rows that are the same stay, with what is selected in them. */
function changes() {
  let last = '';
  return (document) => {
    const before = last;
    last = JSON.stringify(document);
    return last !== before;
  };
}

const busiest = (entries) => entries.sort((one, two) => two.packets - one.packets).slice(0, LIMIT);

export function make(ask, go) {
  let shape = null;
  let name = null;
  let pages = [0];
  let next = null;
  let run = 0;
  let isLoading = false;
  const list = el('ul', { class: 'table-list' });
  const heading = el('h2');
  const about = el('p', { class: 'note' });
  const search = el('input', { type: 'search', id: 'search', placeholder: 'Search: 10.1.0.0 forward', maxlength: 200, autocomplete: 'off', spellcheck: 'false', oninput: () => later() });
  const order = el('select', { id: 'order', onchange: () => again() }, el('option', { value: 'slots' }, 'in their order'), el('option', { value: 'packets' }, 'busiest first'));
  const head = el('tr');
  const body = el('tbody');
  const rows = el('table', { class: 'cards entries' }, el('thead', {}, head), body);
  const status = el('p', { class: 'note', role: 'status' });
  const back = el('button', { type: 'button', onclick: () => turn(-1) }, 'Previous');
  const forth = el('button', { type: 'button', onclick: () => turn(1) }, 'Next');
  const tools = el('div', { class: 'bar search' }, el('label', { class: 'hidden', for: 'search' }, 'Search'), search, el('label', { class: 'hidden', for: 'order' }, 'Order'), order);
  const entries = el('section', { class: 'panel' }, heading, about, tools, el('div', { class: 'scroll' }, rows), el('div', { class: 'bar' }, status, back, forth));
  const kind = el('select', { id: 'kind', onchange: () => objects() }, OBJECTS.map(([value, text]) => el('option', { value }, text)));
  const found = el('ul', { class: 'objects' });
  const more = el('p', { class: 'note' });
  const others = el('section', { class: 'panel' }, el('div', { class: 'bar' }, el('h2', {}, 'Other objects'), el('label', { class: 'hidden', for: 'kind' }, 'Kind'), kind), found, more);
  const none = el('p', { class: 'none' }, 'The program has no table.');
  // Until the program is known.
  none.hidden = true;
  const made = el('div', {}, el('h1', { class: 'hidden' }, 'Tables'), none, el('div', { class: 'beside' }, list, el('div', {}, entries, others)));

  let timer = 0;
  function later() {
    clearTimeout(timer);
    timer = setTimeout(again, 200);
  }

  function again() {
    pages = [0];
    load();
  }

  function turn(by) {
    if (by > 0 && next !== null) pages.push(next);
    else if (by < 0 && pages.length > 1) pages.pop();
    else return;
    load();
  }

  /** A page of entries. A search goes on until it has one, however far that is. `isAgain`: of the one that is shown. */
  async function load(isAgain = false) {
    const one = shape?.tables.find((known) => known.name === name);
    if (!one || (isAgain && isLoading)) return;
    const mine = (run += 1);
    const words = search.value.trim();
    const byPackets = order.value === 'packets';
    let kept = [];
    let from = pages[pages.length - 1];
    let looked = 0;
    let answer = null;
    isLoading = true;
    if (!isAgain) set(rows, { 'aria-busy': true });
    try {
      do {
        const asked = { table: name, from, limit: byPackets ? LIMIT : LIMIT - kept.length, search: words, order: order.value };
        answer = await ask('entries', asked);
        if (mine !== run) return;
        kept.push(...answer.entries);
        // The busiest of all are among those of each part.
        if (byPackets) kept = busiest(kept);
        looked += answer.looked_at;
        from = answer.next;
        if (!isAgain && words && from !== null && (byPackets || kept.length < LIMIT)) say(status, `Looking: ${percent(Math.min(1, looked / Math.max(answer.all, 1)))} of ${whole(answer.all)} entries`);
      } while (from !== null && (byPackets || kept.length < LIMIT));
      next = from;
      show(one, kept);
      const page = pages.length > 1 ? `, page ${pages.length}` : '';
      const all = `${whole(answer.all)} ${answer.all === 1 ? 'entry' : 'entries'}`;
      if (byPackets) say(status, words ? `The ${whole(kept.length)} busiest found among ${all}` : `The ${whole(kept.length)} busiest of ${all}`);
      else if (words) say(status, `${kept.length === LIMIT ? 'The first ' : ''}${whole(kept.length)} found among ${whole(looked)} of ${all}${page}`);
      else say(status, `${whole(kept.length)} of ${all}${page}`);
    } catch (error) {
      if (mine !== run) return;
      next = null;
      say(status, error.message);
    }
    isLoading = false;
    set(rows, { 'aria-busy': null });
    back.disabled = pages.length < 2;
    forth.disabled = next === null;
  }

  const entriesChange = changes();
  function show(one, items) {
    if (!entriesChange([one, items])) return;
    const columns = one.keys.map((key) => [key.name, 'mono', (entry) => entry.match[key.name] ?? 'any']);
    if (one.keys.some((key) => key.kind !== 'exact' && key.kind !== 'lpm')) columns.push(['priority', 'number', (entry) => entry.priority ?? '']);
    columns.push(['action', 'mono', (entry) => entry.action]);
    if (one.idle_timeout_ms) columns.push(['hit', 'number', (entry) => (entry.since_hit_ms === undefined ? '' : `${whole(entry.since_hit_ms)} ms ago`)]);
    if (one.counters) columns.push(['packets', 'number', (entry) => (entry.packets === undefined ? '' : whole(entry.packets))], ['bytes', 'number', (entry) => (entry.bytes === undefined ? '' : whole(entry.bytes))]);
    head.replaceChildren(...columns.map(([text, style]) => el('th', { scope: 'col', class: style }, text)));
    body.replaceChildren(...items.map((entry) => el('tr', {}, columns.map(([text, style, value]) => el('td', { 'data-label': text, class: style }, String(value(entry)))))));
  }

  const objectsChange = changes();
  async function objects() {
    try {
      const answer = await ask('objects', { kind: kind.value });
      if (!objectsChange(answer)) return;
      found.replaceChildren(...answer.objects.map((one) => el('li', { class: 'mono' }, Object.entries(one).map(([key, value]) => el('span', {}, el('small', {}, `${key} `), typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value))))));
      say(more, answer.objects.length ? (answer.more ? `${whole(answer.more)} more` : '') : 'There are none.');
    } catch (error) {
      objectsChange(null);
      say(more, error.message);
    }
  }

  function choose(wanted) {
    if (!shape?.tables.length) return;
    const one = shape.tables.find((known) => known.name === wanted) ?? shape.tables[0];
    describe(one);
    for (const li of list.children) set(li.firstChild, { 'aria-current': li.firstChild.dataset.name === one.name ? 'true' : null });
    if (name === one.name) return;
    name = one.name;
    order.value = 'slots';
    search.value = '';
    again();
  }

  function describe(one) {
    say(heading, one.name);
    const keys = one.keys.map((key) => `${key.name} (${key.kind}, ${key.bits} bit)`).join(', ');
    const extras = [one.const_entries ? 'constant' : '', one.selector ? 'members and groups' : '', one.meter ? `meters: ${one.meter}` : '', one.counters ? '' : 'hits are not counted'].filter(Boolean);
    say(about, `Keys: ${keys || 'none'}. Actions: ${one.actions.map((action) => `${action.name}(${action.params.map((param) => param.name).join(', ')})`).join(', ')}. Otherwise ${one.default}.${extras.length ? ` ${extras.join(', ')}.` : ''}`);
    order.disabled = !one.counters;
    if (order.disabled) order.value = 'slots';
  }

  const loadAgain = repeated(() => load(true));
  const objectsAgain = repeated(objects);
  let wanted = null;
  async function update(model) {
    // Swaps and writes change it: its tables, and their default actions.
    shape = (await ask('switch')).program;
    none.hidden = shape.tables.length > 0;
    entries.hidden = shape.tables.length === 0;
    const counted = new Map(model.tables.map((one) => [one.table, one]));
    each(list, shape.tables, (one) => one.name, (one) => {
      const link = el('a', { href: `#/tables/${encodeURIComponent(one.name)}` }, el('strong', {}, one.name), el('span'), el('meter', { min: 0, max: 1, high: 0.9, low: 0.7, optimum: 0 }));
      link.dataset.name = one.name;
      return el('li', {}, link);
    }, (li, one) => {
      const now = counted.get(one.name);
      const [, text, meter] = li.firstChild.children;
      const hits = now?.hit_rate === null || now?.hit_rate === undefined ? '' : ` · ${rate(now.hit_rate)}`;
      say(text, now ? `${whole(now.entries)} of ${whole(now.size)}${hits}` : '');
      meter.value = now && now.size ? now.entries / now.size : 0;
      set(meter, { title: 'Entries of its size' });
    });
    choose(wanted);
    loadAgain();
    objectsAgain();
  }

  return {
    made, update,
    open: (one) => {
      wanted = one;
      choose(one);
    },
    search: () => search.focus(),
    turn,
    step: (by) => {
      const at = shape?.tables.findIndex((one) => one.name === name) ?? -1;
      const other = shape?.tables[(at + by + shape.tables.length) % shape.tables.length];
      if (other) go(`#/tables/${encodeURIComponent(other.name)}`);
    },
  };
}

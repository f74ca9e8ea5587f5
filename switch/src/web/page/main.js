// The frame: which view is shown, how often the switch is asked, and keys. Nothing is asked while nobody looks.

import * as overview from './overview.js';
import * as program from './program.js';
import * as queues from './queues.js';
import * as tables from './tables.js';
import { say, set } from './dom.js';
import { compare, forget } from './rates.js';

const VIEWS = { overview, queues, program, tables };
const part = (id) => document.getElementById(id);
const [main, state, pause, every] = ['main', 'state', 'pause', 'every'].map(part);

async function ask(path, parameters = {}) {
  const query = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
  let answer;
  try {
    answer = await fetch(`/api/${path}${query && `?${query}`}`, { cache: 'no-store' });
  } catch {
    throw new Error('The switch does not answer');
  }
  const document = await answer.json().catch(() => ({ error: `The answer is no JSON (status ${answer.status})` }));
  if (!answer.ok) throw new Error(document.error ?? `Status ${answer.status}`);
  return document;
}

const go = (hash) => {
  location.hash = hash;
};
const made = {};
let shown = null;
let model = null;
let isPaused = false;
let timer = 0;

/** A part of an address; `null`: there is none, or somebody typed one that is no encoding. */
function decoded(text) {
  try {
    return text ? decodeURIComponent(text) : null;
  } catch {
    return null;
  }
}

function route() {
  if (shown && !location.hash.startsWith('#/')) return;
  const [, wanted, rest] = location.hash.match(/^#\/(\w+)\/?(.*)$/) ?? [];
  const name = Object.hasOwn(VIEWS, wanted ?? '') ? wanted : 'overview';
  made[name] ??= VIEWS[name].make(ask, go);
  if (shown !== name) {
    shown = name;
    main.replaceChildren(made[name].made);
    scrollTo(0, 0);
  }
  for (const link of document.querySelectorAll('nav a')) set(link, { 'aria-current': link.hash === `#/${name}` ? 'page' : null });
  made[name].open?.(decoded(rest));
  title();
  if (model) Promise.resolve(made[name].update(model)).catch((error) => report(error.message, 'bad'));
}

function title() {
  document.title = `${VIEWS[shown].title} · ${model?.now.program?.name ?? 'Wireyard'}`;
}

function report(text, kind) {
  say(state, text);
  set(state, { class: kind });
}

async function tick() {
  clearTimeout(timer);
  if (isPaused || document.hidden) return;
  const began = performance.now();
  try {
    const next = compare(await ask('live'));
    if (next) {
      model = next;
      say(part('name'), model.now.program?.name ?? 'Wireyard');
      say(part('about'), `${model.now.program?.engine ?? ''} engine · ${model.ports.length} ports`);
      title();
      await made[shown].update(model);
    }
    if (!isPaused) report('live', 'good');
  } catch (error) {
    forget();
    report(error.message, 'bad');
  }
  if (isPaused || document.hidden) return;
  const wait = model ? Number(every.value) : 200;
  timer = setTimeout(tick, Math.max(50, wait - (performance.now() - began)));
}

function toggle() {
  isPaused = !isPaused;
  say(pause, isPaused ? 'Go on' : 'Pause');
  report(isPaused ? 'paused' : 'live', isPaused ? 'warn' : 'good');
  if (!isPaused) {
    forget();
    tick();
  }
}

const THEMES = ['', 'light', 'dark'];
function theme(next) {
  let now = '';
  try {
    now = localStorage.getItem('theme') ?? '';
    if (next) now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    localStorage.setItem('theme', now);
  } catch {
    // A browser that keeps nothing has the theme of its system.
  }
  set(document.documentElement, { 'data-theme': now || null });
  say(part('theme'), now ? now[0].toUpperCase() + now.slice(1) : 'Auto');
}

const KEYS = {
  1: () => go('#/overview'), 2: () => go('#/queues'), 3: () => go('#/program'), 4: () => go('#/tables'),
  ' ': toggle, d: () => theme(true), '?': () => part('help').showModal(),
  '/': () => {
    if (shown !== 'tables') go('#/tables');
    setTimeout(() => made.tables?.search());
  },
  n: () => made[shown].turn?.(1), p: () => made[shown].turn?.(-1), '[': () => made[shown].step?.(-1), ']': () => made[shown].step?.(1),
};

addEventListener('keydown', (event) => {
  const target = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || part('help').open) return;
  if (target.matches?.('input, select, textarea')) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  if (event.key === ' ' && target.matches?.('button, a, summary, [role=link]')) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
addEventListener('hashchange', route);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) {
    forget();
    tick();
  }
});
pause.addEventListener('click', toggle);
every.addEventListener('change', tick);
part('theme').addEventListener('click', () => theme(true));
part('keys').addEventListener('click', () => part('help').showModal());

theme(false);
route();
report('connecting', 'warn');
tick();

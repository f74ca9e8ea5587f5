// Elements, rows that stay when their numbers change, and numbers for people.

const SVG = 'http://www.w3.org/2000/svg';
const OF_SVG = new Set(['svg', 'g', 'path', 'rect', 'line', 'text', 'circle', 'title', 'defs', 'marker', 'polygon']);

/** An element with attributes (`on...` are listeners) and children; text is text, never markup. */
export function el(name, attributes = {}, ...children) {
  const made = OF_SVG.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  set(made, attributes);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === null || value === undefined) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Changes a text where it is another one. */
export function say(element, text) {
  const shown = String(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** Children of a list by their keys: made once, kept while they are there, in the order of the items. */
export function each(parent, items, key, make, update) {
  const known = parent.children_by_key ?? new Map();
  const now = new Map();
  let after = null;
  for (const item of items) {
    const name = String(key(item));
    const child = known.get(name) ?? make(item);
    now.set(name, child);
    const place = after ? after.nextSibling : parent.firstChild;
    if (child !== place) parent.insertBefore(child, place);
    update(child, item);
    after = child;
  }
  for (const [name, child] of known) if (!now.has(name)) child.remove();
  parent.children_by_key = now;
}

/** A table whose rows are cards on a narrow screen. Columns: [title, class]. */
export function table(columns, caption) {
  const head = el('tr', {}, columns.map(([title, kind]) => el('th', { scope: 'col', class: kind }, title)));
  const body = el('tbody');
  const made = el('table', { class: 'cards' }, el('caption', { class: 'hidden' }, caption), el('thead', {}, head), body);
  return { made, body, row: () => el('tr', {}, columns.map(([title, kind]) => el('td', { 'data-label': title, class: kind }))) };
}

export function panel(title, ...children) {
  return el('section', { class: 'panel' }, el('h2', {}, title), ...children);
}

const SHORT = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

/** Three digits and a prefix. */
export function short(value) {
  if (!Number.isFinite(value)) return '–';
  for (const [size, prefix] of SHORT) {
    if (Math.abs(value) >= size * 0.9995) {
      const scaled = value / size;
      return `${scaled >= 99.95 ? scaled.toFixed(0) : scaled >= 9.995 ? scaled.toFixed(1) : scaled.toFixed(2)} ${prefix}`;
    }
  }
  return value >= 10 || Number.isInteger(value) ? `${Math.round(value)} ` : `${value.toFixed(1)} `;
}

export const bits = (value) => `${short(value)}bit/s`;
// K is 1000 in configurations too.
export const bytes = (value) => `${short(value).replace('k', 'K')}B`;
export const packets = (value) => `${short(value).trim()} packets/s`;
export const rate = (value) => `${short(value)}/s`.replace(' /s', '/s');
export const whole = (value) => Number(value).toLocaleString('en-US');
export const percent = (share) => (share >= 0.0995 || share === 0 ? `${Math.round(share * 100)} %` : share >= 0.001 ? `${(share * 100).toFixed(1)} %` : '< 0.1 %');

/** A line of the last values. */
export function spark(width = 120, height = 28) {
  const line = el('path', { class: 'spark-line' });
  const area = el('path', { class: 'spark-area' });
  const made = el('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, line);
  const draw = (values, most) => {
    const top = Math.max(most ?? 0, ...values, 1e-9);
    const step = width / Math.max(values.length - 1, 1);
    const points = values.map((value, n) => `${(n * step).toFixed(1)} ${(height - 1 - (value / top) * (height - 3)).toFixed(1)}`);
    const path = values.length > 1 ? `M${points.join('L')}` : '';
    set(line, { d: path });
    set(area, { d: path && `${path}L${width} ${height}L0 ${height}Z` });
  };
  return { made, draw };
}

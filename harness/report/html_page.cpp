#include "harness/report/html_page.h"

#include <cstdint>

#include "harness/base/hash.h"
#include "harness/report/html_text.h"

namespace lockstep::report {
namespace {

/// Nothing depends on it: Jenkins, for one, drops it.
constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --text: #1c2330; --quiet: #5b6575; --line: #dfe3ea; --link: #1a5fb4;
  --good: #1f7a45; --good-soft: #e2f3e8; --bad: #b3261e; --bad-soft: #fbe6e4; --open: #8a5a00; --open-soft: #fdf1d7;
  --kept: #4a4f9c; --kept-soft: #e8e9f8;
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 0 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; } h4 { font-size: .95rem; margin: 1rem 0 .25rem; }
a { color: var(--link); } p { margin: .25rem 0 .75rem; }
code, pre, dd.log { font: .86em/1.5 ui-monospace, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--page); padding: .6rem .8rem; border-radius: 6px; margin: 0; }
code.command { user-select: all; overflow-wrap: anywhere; background: var(--page); padding: .15rem .4rem; border-radius: 4px; }
.quiet { color: var(--quiet); font-size: .9em; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.25rem; margin: 1rem 0; }
.finding { border: 1px solid var(--line); border-left: 4px solid var(--quiet); border-radius: 8px; padding: .8rem 1rem; margin: .9rem 0; }
.finding.bad { border-left-color: var(--bad); } .finding.open { border-left-color: var(--open); }
.finding.kept { border-left-color: var(--kept); }
.badge { display: inline-block; padding: .05rem .55rem; border-radius: 1rem; font-size: .8rem; font-weight: 600; white-space: nowrap;
  border: 1px solid transparent; vertical-align: .1em; }
.badge.good { color: var(--good); background: var(--good-soft); } .badge.bad { color: var(--bad); background: var(--bad-soft); border-color: currentColor; }
.badge.open { color: var(--open); background: var(--open-soft); } .badge.kept { color: var(--kept); background: var(--kept-soft); }
table { border-collapse: collapse; width: 100%; font-size: .92em; }
th { text-align: left; color: var(--quiet); font-weight: 600; } th, td { padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; } td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.words { overflow-wrap: anywhere; min-width: 7rem; } td.words:last-child { min-width: 16rem; }
dl { display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: .2rem .75rem; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
dd.remedy { background: var(--good-soft); border-radius: 6px; padding: .25rem .6rem; }
dd { grid-column: 2; } dd.cause { font-weight: 600; } dd details { margin: 0; }
details { margin: .35rem 0; } summary { cursor: pointer; border-radius: 4px; }
summary:hover { background: var(--page); } :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
figure { margin: .5rem 0; } figcaption { font-weight: 600; font-size: .9rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1.25rem; }
svg.chart { width: 100%; height: auto; max-width: 40rem; } .tick { fill: var(--quiet); } .grid { stroke: var(--line); } .axis { stroke: var(--quiet); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; margin: .25rem 0; font-size: .85rem; }
.wide { overflow-x: auto; }
.tree { min-width: max-content; font-size: .83rem; } .tree ul { list-style: none; margin: 0; padding: 0; }
.tree details { margin: 0; } .module > :not(summary) { margin-left: 1rem; }
.tree summary, .tree .row, .ruler { display: flex; align-items: center; white-space: nowrap; padding: .08rem 0; }
.tree summary { list-style: none; } .tree summary::-webkit-details-marker { display: none; }
.tree summary::before { content: "\25b8"; width: 1rem; flex: none; color: var(--quiet); } .tree details[open] > summary::before { content: "\25be"; }
.module > ul > .row::before, .ruler::before { content: ""; width: 1rem; flex: none; }
.tree .name { flex: none; min-width: 18rem; padding-right: .5rem; }
.d0 > ul .name, .d1 > summary .name { min-width: 17rem !important; } .d1 > ul .name, .d2 > summary .name { min-width: 16rem !important; }
.d2 > ul .name, .d3 > summary .name { min-width: 15rem !important; } .d3 > ul .name, .d4 > summary .name { min-width: 14rem !important; }
.d4 > ul .name, .d5 > summary .name { min-width: 13rem !important; } .d5 > ul .name { min-width: 12rem !important; }
.tree svg { flex: none; } .ruler { color: var(--quiet); } .tree .note { color: var(--quiet); padding-left: .5rem; }
.row.first { background: var(--bad-soft); border-radius: 4px; } .row.first .note b { color: var(--bad); }
.row:target { outline: 2px solid var(--bad); }
.tools { display: flex; flex-wrap: wrap; gap: .5rem; margin: .5rem 0; }
.tools input, .tools select { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .25rem .5rem; }
.unstyled { display: none; } [hidden] { display: none !important; }
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161d; --card: #1a202a; --text: #e4e8ef; --quiet: #98a3b5; --line: #2d3644; --link: #82b4f0;
    --good: #6fd197; --good-soft: #173524; --bad: #ff9a91; --bad-soft: #43201e; --open: #f0c063; --open-soft: #3d3016;
    --kept: #b3b8f5; --kept-soft: #2a2d52;
  }
  .line.l0 { stroke: #5aaee8; } .line.l1 { stroke: #f2884b; } .line.l2 { stroke: #3cc79a; } .line.l3 { stroke: #e3a3c6; }
  .line.l4 { stroke: #e6b84a; } .line.l5 { stroke: #8cc4f0; } .line.l6 { stroke: #b39be6; } .line.l7 { stroke: #b0b0b0; } .limit { stroke: #a8a8a8; }
  svg .none { fill: #566070; } svg .equal { fill: #49a872; } svg .beyond { fill: #ef5b53; } svg .missing { fill: #b07fd6; }
}
@media print {
  body { background: #fff; font-size: 11px; } .card, .finding, figure { break-inside: avoid-page; border-color: #bbb; }
  .tools { display: none; } details::details-content { content-visibility: visible; display: block; }
  .tree { min-width: 0; } .card { padding: .5rem .75rem; } * { print-color-adjust: exact; }
}
)css";

/// Adds search and filters; the page says all without them.
constexpr const char* kScript = R"js(
'use strict';
const make = (tag, more) => Object.assign(document.createElement(tag), more);
const choice = (label, values) => {
  const select = make('select', {ariaLabel: label});
  select.append(make('option', {value: '', textContent: label + ': all'}));
  for (const value of values) select.append(make('option', {value, textContent: value}));
  return select;
};
const addTools = (before, label, list, values, use) => {
  const bar = make('div', {className: 'tools'});
  const search = make('input', {type: 'search', placeholder: 'Search ' + label, ariaLabel: 'Search ' + label});
  const select = choice(list, values);
  bar.append(search, select);
  before.before(bar);
  const run = () => use(search.value.trim().toLowerCase(), select.value);
  search.addEventListener('input', run);
  select.addEventListener('change', run);
};
const fits = (element, text, has, wanted) =>
  element.textContent.toLowerCase().includes(text) && (!wanted || has.split(' ').includes(wanted));
for (const map of document.querySelectorAll('.map')) {
  const rows = [...map.querySelectorAll('.row')];
  const values = new Set(rows.flatMap((row) => row.dataset.has.split(' ')));
  const modules = [...map.querySelectorAll('.module')];
  const before = modules.map((module) => module.open);
  addTools(map.querySelector('.wide'), 'tensors', 'relation', values, (text, wanted) => {
    for (const row of rows) row.hidden = !fits(row, text, row.dataset.has, wanted);
    modules.forEach((module, i) => {
      const shown = module.querySelector('.row:not([hidden])');
      module.hidden = !shown;
      module.open = text || wanted ? Boolean(shown) : before[i];
    });
  });
}
const list = document.querySelector('#scenarios');
if (list) {
  const all = [...document.querySelectorAll('[data-verdict]')];
  const values = new Set(all.flatMap((one) => one.dataset.verdict.split(',')));
  addTools(list.querySelector('.wide'), 'scenarios', 'verdict', values, (text, wanted) => {
    for (const one of all)
      one.hidden = !(one.textContent.toLowerCase().includes(text) && (!wanted || one.dataset.verdict.split(',').includes(wanted)));
  });
}
)js";

/// RFC 4648, of the bytes that these hexadecimal digits stand for.
std::string base64_of_hex(const std::string& hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 6) {
    const std::string three = hex.substr(i, 6);
    const auto bits = static_cast<std::uint32_t>(std::stoul(three + std::string(6 - three.size(), '0'), nullptr, 16));
    for (std::size_t digit = 0; digit < 4; ++digit)
      out += digit * 2 <= three.size() ? kDigits[bits >> (18 - 6 * digit) & 63U] : '=';
  }
  return out;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  const std::string policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
                             base64_of_hex(sha256(kScript)) + "'; base-uri 'none'; form-action 'none'";
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
         "http-equiv=\"Content-Security-Policy\" "
         "content=\"" +
         policy +
         "\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" "
         "content=\"light dark\"><title>" +
         html_of(title) + "</title>\n<style>" + kStyle + "</style></head>\n<body>\n" + body + "<script>" + kScript +
         "</script>\n</body></html>\n";
}

}  // namespace lockstep::report

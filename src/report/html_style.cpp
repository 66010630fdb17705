#include "report/html.h"

namespace sdm::html {

std::string_view style_sheet() {
  return R"css(
:root{color-scheme:light dark;--page:#f6f6f3;--card:#fff;--ink:#14140f;--soft:#5a5952;--mute:#8b897f;--line:#e4e3db;--track:#efeee8;
--bar:#a9c9ee;--roof:#2a78d6;--good:#0a7a3f;--goodbg:#e2f3e8;--bad:#b8261f;--badbg:#fbe5e3;--warn:#8a5a00;--warnbg:#fbf0d5;
--s0:#2a78d6;--s1:#eb6834;--s2:#1a9d70;--s3:#c98500;--s4:#d55181;--s5:#4a3aa7}
@media (prefers-color-scheme:dark){:root{--page:#0e0e0d;--card:#191918;--ink:#f3f2ec;--soft:#b9b7ac;--mute:#85837a;--line:#2d2d2a;--track:#262624;
--bar:#2b4668;--roof:#4c97ee;--good:#5fd08f;--goodbg:#12301f;--bad:#ff8a80;--badbg:#3a1715;--warn:#f0bf5a;--warnbg:#33270d;
--s0:#4c97ee;--s1:#f0814f;--s2:#2fbd8b;--s3:#dfa52a;--s4:#e577a0;--s5:#a095f2}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:28px;line-height:1.2;margin:0 0 6px;letter-spacing:-.02em}
h2{font-size:19px;margin:40px 0 12px;letter-spacing:-.01em}
h3{font-size:17px;margin:0;overflow-wrap:anywhere;letter-spacing:-.01em}
h4{font-size:13px;margin:0 0 8px;color:var(--soft);font-weight:600}
a{color:inherit;text-decoration-color:var(--mute);text-underline-offset:3px}
code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.lead{color:var(--soft);margin:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:24px 0 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.tile b{display:block;font-size:24px;line-height:1.25;font-weight:650;letter-spacing:-.02em}
.tile span{color:var(--soft);font-size:13px}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:20px;margin:0 0 16px;break-inside:auto}
.head{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center}
.chip{display:inline-block;padding:1px 9px;border-radius:99px;font-size:12.5px;font-weight:600;background:var(--track);color:var(--soft);white-space:nowrap}
.chip.good{background:var(--goodbg);color:var(--good)}.chip.bad{background:var(--badbg);color:var(--bad)}.chip.warn{background:var(--warnbg);color:var(--warn)}
.reason{margin:8px 0 0;color:var(--bad);overflow-wrap:anywhere}
.params{margin:8px 0 0;color:var(--soft);font-size:13px;line-height:1.7}
.params span{white-space:nowrap;margin-right:12px}.params b{color:var(--ink);font-weight:550}
.facts{margin:4px 0 0;color:var(--mute);font-size:13px}
.note{margin:10px 0 0;color:var(--warn);font-size:13px}
.passes{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:22px 36px;margin:20px 0 0}
.pass{min-width:0;break-inside:avoid}.part{grid-column:1/-1}
.total{display:flex;align-items:baseline;gap:10px;margin:0 0 8px;padding:0 0 6px;border-bottom:1px solid var(--line)}
.total h4{margin:0;flex:1;color:var(--ink);font-size:14px}.total b{font-size:18px;letter-spacing:-.01em}.total span{color:var(--mute);font-size:12.5px}
.row{display:grid;grid-template-columns:minmax(176px,1.5fr) minmax(60px,1.4fr) 72px 44px 74px;gap:0 10px;align-items:center;min-height:27px;font-size:13.5px}
.row .t,.row .r{text-align:right;white-space:nowrap}.row .r{color:var(--soft)}
.row .n{display:flex;align-items:baseline;gap:6px;min-width:0;white-space:nowrap}.row .n small{color:var(--mute);font-size:11.5px;min-width:0;overflow:hidden;text-overflow:ellipsis}
.row.key,.row.key .r{min-height:18px;color:var(--mute);font-size:11.5px}.row .sk{text-align:center;white-space:nowrap}
.bar{height:13px;background:var(--track);border-radius:4px;overflow:hidden}
.bar i{display:block;height:100%;background:var(--bar);border-radius:4px;min-width:2px;overflow:hidden}.bar i b{display:block;height:100%;background:var(--roof)}
svg{display:block;width:100%;overflow:visible}
.box line{stroke:var(--mute);stroke-width:1;vector-effect:non-scaling-stroke}.box .mid{stroke:var(--ink);stroke-width:2}
.box .axis{stroke:var(--line)}.box rect{fill:var(--bar)}.box .dot{stroke:var(--roof);stroke-width:1;opacity:.45}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;color:var(--soft);font-size:13px;margin:8px 0 0}
.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:24px}
.chart{break-inside:avoid;min-width:0}.chart text{fill:var(--soft);font-size:12px;font-family:inherit}.chart .grid{stroke:var(--line)}
.chart polyline{fill:none;stroke-width:2;stroke-linejoin:round}.chart circle{stroke:var(--card);stroke-width:2}
.scroll{overflow-x:auto}.grid td,.grid th{white-space:nowrap}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{font-weight:600;color:var(--soft);text-align:left;font-size:12.5px}
th,td{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
td.num,th.num{text-align:right;white-space:nowrap}td.num+td:not(.num),th.num+th:not(.num){padding-left:14px}td.mark,th.mark{text-align:center;white-space:nowrap;padding-right:10px}
.yes{color:var(--good);font-weight:700}.no{color:var(--bad);font-weight:700}.open{color:var(--mute)}
details{margin:14px 0 0;font-size:13.5px}summary{cursor:pointer;color:var(--soft);font-size:13px}
dl{display:grid;grid-template-columns:minmax(120px,max-content) 1fr;gap:4px 18px;margin:0;font-size:13.5px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px}
footer{color:var(--mute);font-size:12.5px;margin-top:32px}
@media (max-width:640px){main{padding:20px 12px 40px}h1{font-size:23px}.card{padding:14px}
.row{grid-template-columns:1fr 72px 50px;gap:3px 8px;padding:5px 0}.row .bar{grid-row:2;grid-column:1/3}.row .box{grid-row:2;grid-column:3}.row.key .bk,.row.key .sk{display:none}
.tiles{grid-template-columns:1fr 1fr}.tile b{font-size:20px}dl{grid-template-columns:1fr}dd{margin:0 0 6px}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--mute:#777;--line:#ccc;--track:#eee;--bar:#a9c9ee;--roof:#2a78d6;--good:#0a6a37;--goodbg:#e2f3e8;--bad:#a3201a;--badbg:#fbe5e3;--warn:#7a4f00;--warnbg:#fbf0d5}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}body{font-size:11px}main{max-width:none;padding:0}.card{border:0;border-top:1px solid #ccc;border-radius:0;padding:12px 0}
details{display:none}h2{break-after:avoid}.passes,.charts{grid-template-columns:1fr 1fr;gap:12px 24px}
.row{grid-template-columns:minmax(104px,1.4fr) 1fr 54px 34px 48px;gap:0 6px;font-size:10px;min-height:18px}.row .n small{font-size:9px}.total b{font-size:13px}.total span{font-size:9px}}
)css";
}

}  // namespace sdm::html

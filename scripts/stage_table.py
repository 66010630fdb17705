import json,sys
pub={'default':dict(gather=465,write=764,gather_grad=619,undo=1415,read_grad=1313),
'small120':dict(gather=363,write=687,gather_grad=377,undo=1156,read_grad=1056),
'flagship':dict(gather=3328,write=5976,gather_grad=2804,undo=11895,read_grad=9138),
'flag64':dict(gather=2803,write=3712,gather_grad=2193,undo=5512,read_grad=4780),
'wide960':dict(gather=1670,write=2371,gather_grad=1450,undo=3416,read_grad=3150),
'f32_128':dict(gather=815,write=1135,gather_grad=917,undo=1747,read_grad=1939)}
r=json.load(open(sys.argv[1]))
for c in r['cases']:
    n=c['id'].split('/')[1] if '/' in c['id'] else c['id']
    print(c['id'],c['status'],(c['reason'] or '')[:200])
    for p in c['passes']: print('   ',p['name'],p['l2'],round(p['median_us'],1),'host',p.get('host_us') and round(p['host_us'],1))
    for s in c['stages']:
        if s['l2']!='hot' : 
            q=pub.get(n,{}).get(s['name']); 
            print('      %-20s %9.1f us  x%-3d %7.0f GB/s roof %s  pub %s ratio %s  %s'%(s['name'],s['median_us'],s['calls'],(s['bytes_per_second'] or 0)/1e9, s['roof_percent'] and round(s['roof_percent']), q, q and round(q/s['median_us'],2), c['variants'][s['name']]['name']))
for x in r['roof']: print(x)

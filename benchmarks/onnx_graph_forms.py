"""Forms of attention, LayerNorm and GELU in ONNX graphs of MiniLM: fused operations, processor time of one thread."""
import sys, time, collections, statistics
import numpy as np, onnx, onnxruntime as ort
from onnx import helper as h, numpy_helper as nh, TensorProto as T
H,L,N,I,V,P=384,6,12,1536,30522,512
D=H//N
rng=np.random.default_rng(0)
W={}
def w(name,*shape):
    if name not in W: W[name]=(rng.normal(0,.03,shape)).astype('f')
    return W[name]
class G:
    def __init__(s): s.nodes=[]; s.init={}; s.k=0
    def c(s,name,a):
        if name not in s.init: s.init[name]=nh.from_array(np.asarray(a),name)
        return name
    def n(s,op,ins,domain='',nout=1,**kw):
        s.k+=1; outs=[f'{op}_{s.k}' if nout==1 else f'{op}_{s.k}_{i}' for i in range(nout)]
        s.nodes.append(h.make_node(op,ins,outs,domain=domain,**kw)); return outs[0] if nout==1 else outs
def build(opset, attn='classic', gelu='op', int8=False, ln='op',flat=False):
    g=G()
    f=lambda x: np.float32(x)
    ids,mask,seg='input_ids','input_mask','segment_ids'
    shape=g.n('Shape',[ids])
    ln_=lambda x,nm: g.n('LayerNormalization',[x,g.c(nm+'.g',1+w(nm+'.g',H)),g.c(nm+'.b',w(nm+'.b',H))],axis=-1,epsilon=1e-12)
    if ln=='parts':
        def ln_(x,nm):
            d=g.n('Sub',[x,g.n('ReduceMean',[x],axes=[-1])])
            v=g.n('ReduceMean',[g.n('Pow',[d,g.c('two',f(2))])],axes=[-1])
            y=g.n('Div',[d,g.n('Sqrt',[g.n('Add',[v,g.c('eps',f(1e-12))])])])
            return g.n('Add',[g.n('Mul',[y,g.c(nm+'.g',1+w(nm+'.g',H))]),g.c(nm+'.b',w(nm+'.b',H))])
    tok=g.n('Gather',[g.c('tok',w('tok',V,H)),ids])
    segv=g.n('Gather',[g.c('seg',w('seg',2,H)),seg])
    length=g.n('Gather',[shape,g.c('one_i',np.int64(1))])
    pos=g.n('Range',[g.c('z',np.int64(0)),length,g.c('o',np.int64(1))])
    posv=g.n('Gather',[g.c('pos',w('pos',P,H)),pos])
    x=ln_(g.n('Add',[g.n('Add',[tok,posv]),segv]),'eln')
    def unsq(x,axes):
        if opset>=13: return g.n('Unsqueeze',[x,g.c('ax'+str(axes),np.array(axes,'i8'))])
        return g.n('Unsqueeze',[x],axes=axes)
    m=unsq(unsq(mask,[1]),[2])
    m=g.n('Cast',[m],to=T.FLOAT)
    bias=g.n('Mul',[g.n('Sub',[g.c('one',f(1)),m]),g.c('neg',f(-30000))])
    if 'a23' in attn:
        s1=g.n('Slice',[shape,g.c('i1',np.array([1],'i8')),g.c('i2',np.array([2],'i8'))])
        bias=g.n('Expand',[bias,g.n('Concat',[g.c('o11',np.array([1,1],'i8')),s1,g.c('i1',np.array([1],'i8'))],axis=0)])
    def dense(x,nm,i,o,add=True,scale=None):
        kern=w(nm+'.k',i,o); b=w(nm+'.bias',o)
        if scale: kern=kern*f(scale); b=b*f(scale)
        return mm(x,nm,kern,b)
    def mm(x,nm,kern,b):
        if not int8:
            return g.n('Add',[g.n('MatMul',[x,g.c(nm+'.k',kern)]),g.c(nm+'.bias',b)])
        s=np.abs(kern).max(0)/127; s=np.where(s>0,s,1).astype('f')
        q=np.clip(np.rint(kern/s),-127,127).astype('i1')
        if x not in g.q: g.q[x]=g.n('DynamicQuantizeLinear',[x],nout=3)
        xq,xs,xz=g.q[x]
        p=g.n('MatMulInteger',[xq,g.c(nm+'.q',q),xz,g.c('zero_i8',np.int8(0))])
        p=g.n('Cast',[p],to=T.FLOAT)
        p=g.n('Mul',[p,g.n('Mul',[xs,g.c(nm+'.s',s)])])
        return g.n('Add',[p,g.c(nm+'.bias',b)])
    g.q={}
    for i in range(L):
        nm=f'l{i}.'
        sh=g.c('sh',np.array([0,0,N,D],'i8')); sh2=g.c('sh2',np.array([0,0,H],'i8'))
        rs=lambda t,perm: g.n('Transpose',[g.n('Reshape',[t,sh])],perm=perm)
        if attn=='classic':
            q=rs(dense(x,nm+'q',H,H),[0,2,1,3]); k=rs(dense(x,nm+'k',H,H),[0,2,3,1]); v=rs(dense(x,nm+'v',H,H),[0,2,1,3])
            s=g.n('Div',[g.n('MatMul',[q,k]),g.c('sq',f(D**.5))])
            p=g.n('Softmax',[g.n('Add',[s,bias])],axis=-1 if opset>=13 else 3)
            y=g.n('Reshape',[g.n('Transpose',[g.n('MatMul',[p,v])],perm=[0,2,1,3]),sh2])
        elif attn in('packed','packed_a23','packed_mha'):
            kk=np.concatenate([w(nm+t+'.k',H,H)*f(D**-.5 if t=='q' and attn=='packed' else 1) for t in 'qkv'],1)
            bb=np.concatenate([w(nm+t+'.bias',H)*f(D**-.5 if t=='q' and attn=='packed' else 1) for t in 'qkv'])
            qkv=mm(x,nm+'qkv',kk,bb)
            if attn=='packed':
                sh3=g.c('sh3',np.array([0,0,3,N,D],'i8'))
                if opset>=18: q,k,v=g.n('Split',[qkv],nout=3,axis=-1,num_outputs=3)
                else: q,k,v=g.n('Split',[qkv,g.c('sp',np.array([H,H,H],'i8'))],nout=3,axis=-1)
                q=rs(q,[0,2,1,3]);k=rs(k,[0,2,3,1]);v=rs(v,[0,2,1,3])
                p=g.n('Softmax',[g.n('Add',[g.n('MatMul',[q,k]),bias])],axis=-1)
                y=g.n('Reshape',[g.n('Transpose',[g.n('MatMul',[p,v])],perm=[0,2,1,3]),sh2])
            else:
                q,k,v=g.n('Split',[qkv],nout=3,axis=-1,num_outputs=3)
                if attn=='packed_a23': y=g.n('Attention',[q,k,v,bias],q_num_heads=N,kv_num_heads=N)
                else: y=g.n('MultiHeadAttention',[q,k,v,'',mask],domain='com.microsoft',num_heads=N,mask_filter_value=-30000.)
        elif attn=='a23':
            y=g.n('Attention',[dense(x,nm+t,H,H) for t in 'qkv']+[bias],q_num_heads=N,kv_num_heads=N)
        elif attn=='msattn':
            kk=np.concatenate([w(nm+t+'.k',H,H) for t in 'qkv'],1); bb=np.concatenate([w(nm+t+'.bias',H) for t in 'qkv'])
            if int8:
                s=(np.abs(kk).max(0)/127).astype('f'); qk=np.clip(np.rint(kk/s),-127,127).astype('i1')
                if x not in g.q: g.q[x]=g.n('DynamicQuantizeLinear',[x],nout=3)
                xq,xs,xz=g.q[x]
                y=g.n('QAttention',[xq,g.c(nm+'qk',qk),g.c(nm+'qb',bb),xs,g.c(nm+'qs',s),mask,xz,g.c(nm+'zz',np.zeros(3*H,'i1'))],domain='com.microsoft',num_heads=N,mask_filter_value=-30000.)
            else:
                y=g.n('Attention',[x,g.c(nm+'kk',kk),g.c(nm+'bb',bb),mask],domain='com.microsoft',num_heads=N,mask_filter_value=-30000.)
        x=ln_(g.n('Add',[dense(y,nm+'o',H,H),x]),nm+'ln1')
        z=dense(x,nm+'i',H,I)
        if gelu=='op': z=g.n('Gelu',[z])
        elif gelu=='op_tanh': z=g.n('Gelu',[z],approximate='tanh')
        elif gelu=='ms': z=g.n('Gelu',[z],domain='com.microsoft')
        elif gelu=='erf':
            e=g.n('Add',[g.n('Erf',[g.n('Div',[z,g.c('s2',f(2**.5))])]),g.c('one',f(1))])
            z=g.n('Mul',[g.n('Mul',[z,e]),g.c('half',f(.5))])
        x=ln_(g.n('Add',[dense(z,nm+'f',I,H),x]),nm+'ln2')
    g.nodes.append(h.make_node('Identity',[x],['out']))
    ins=[h.make_tensor_value_info(n_,T.INT32,['B','S']) for n_ in (ids,mask,seg)]
    graph=h.make_graph(g.nodes,'g',ins,[h.make_tensor_value_info('out',T.FLOAT,['B','S',H])],list(g.init.values()),value_info=[h.make_tensor_value_info(pos,T.INT64,['S'])])
    m=h.make_model(graph,opset_imports=[h.make_opsetid('',opset),h.make_opsetid('com.microsoft',1)],ir_version=10 if opset<23 else 11)
    return m.SerializeToString()
def session(b,threads=1,level=None,dump=None):
    o=ort.SessionOptions(); o.inter_op_num_threads=1; o.add_session_config_entry('session.intra_op.allow_spinning','0'); o.intra_op_num_threads=threads; o.log_severity_level=3
    if dump: o.optimized_model_filepath=dump
    return ort.InferenceSession(b,o,providers=['CPUExecutionProvider'])
def ops(b):
    session(b,dump='optimized.onnx'); m=onnx.load('/tmp/onnxp/opt.onnx')
    return dict(collections.Counter((n.domain+'.' if n.domain else '')+n.op_type for n in m.graph.node))
def feed(B,S):
    r=np.random.default_rng(1)
    return {'input_ids':r.integers(5,V,(B,S)).astype('i4'),'input_mask':np.ones((B,S),'i4'),'segment_ids':np.zeros((B,S),'i4')}
def race(models,shapes=((1,16),(1,64),(1,256),(8,64)),rounds=9,secs=.12):
    ss={k:session(v) for k,v in models.items()}
    for B,S in shapes:
        fd=feed(B,S); t={k:[] for k in ss}
        ref=None
        for k,s in ss.items():
            f_=fd if not callable(getattr(s,'feed',None)) else s.feed(fd)
            names=[i.name for i in s.get_inputs()]
        for r in range(rounds+1):
            ks=list(ss); ks=ks[r%len(ks):]+ks[:r%len(ks)]
            for k in ks:
                s=ss[k]; names=[(i.name,i.type) for i in s.get_inputs()]
                mp={'attention_mask':'input_mask','token_type_ids':'segment_ids'}
                fx={n:(fd[mp.get(n,n)].astype('i8') if 'int64' in ty else fd[mp.get(n,n)]) for n,ty in names}
                s.run(None,fx); c=0; t0=time.process_time()
                while c<3 or time.process_time()-t0<secs: s.run(None,fx); c+=1
                if r: t[k].append((time.process_time()-t0)/c*1e3)
        first=next(iter(t.values()))
        print(f'{B}x{S}', '  '.join(f"{k}: {min(v):.2f} med {statistics.median(v):.2f} ({statistics.median([a/b for a,b in zip(v,first)]):.2f})" for k,v in t.items()),flush=True)


if __name__ == "__main__":
    models = {"torch": sys.argv[1]} if len(sys.argv) > 1 else {}
    for name, form in {
        "opset 12": (12, "classic", "erf", False, "parts"),
        "opset 20": (20, "classic", "op"),
        "opset 20, one product": (20, "packed", "op"),
        "Attention-23": (23, "a23", "op"),
        "Attention-23, one product": (23, "packed_a23", "op"),
        "com.microsoft.Attention": (20, "msattn", "op"),
        "com.microsoft.MultiHeadAttention": (20, "packed_mha", "op"),
    }.items():
        models[name] = build(*form)
        print(name, ops(models[name]))
    race(models, rounds=7, secs=0.1)

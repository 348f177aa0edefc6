package scenario

import (
	"context"
	"net/http"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
)

var throttle = Scenario{
	Name: "throttle", about: "the API server answers 429 with Retry-After for some seconds, while m children of n finished objects drift",
	Disturbs: true, parts: []part{partN, partM, partSeconds}, run: disturbed(refusing(tooMany, false)),
	sizes: lastingSizes,
}

var outage = Scenario{
	Name: "outage", about: "watches break and the API server answers 503 for some seconds, while m children of n finished objects drift",
	Disturbs: true, parts: []part{partN, partM, partSeconds}, run: disturbed(refusing(unavailable, true)),
	sizes: lastingSizes,
}

var crash = Scenario{
	Name: "crash", about: "the API server is killed and started again, and m children of n finished objects drift as soon as it is ready",
	Disturbs: true, parts: []part{partN, partM}, run: disturbed(crashing),
	sizes: map[Size][]Variant{
		Short: {{N: 100, M: 20, noServers: true}}, Full: {{N: 1000, M: 100, noServers: true}, {N: 10_000, M: 100, noServers: true}},
		Tiny: {{N: 5, M: 2, noServers: true}},
	},
}

var expire = Scenario{
	Name: "expire", about: "all watches end and their versions have expired, and m children of n finished objects drift",
	Disturbs: true, parts: []part{partN, partM}, run: disturbed(expiring), sizes: crash.sizes,
}

// lastingSizes are the sizes of disturbances that last for a given time.
var lastingSizes = map[Size][]Variant{
	Short: {{N: 100, M: 20, Seconds: 5, noServers: true}},
	Full:  {{N: 1000, M: 100, Seconds: 10, noServers: true}, {N: 10_000, M: 100, Seconds: 10, noServers: true}},
	Tiny:  {{N: 5, M: 2, Seconds: 2, noServers: true}},
}

// disturbance disturbs the API server, and returns when the disturbance was over. It calls drift once the
// children of the objects shall drift.
type disturbance func(ctx context.Context, w *World, win *window, v Variant, drift func() error) (over time.Time, err error)

var (
	tooMany     = faultproxy.Fault{Code: http.StatusTooManyRequests, RetryAfter: time.Second}
	unavailable = faultproxy.Fault{Code: http.StatusServiceUnavailable}
)

// refusing returns a disturbance in which all requests of the contender are refused. The load is not
// refused. With breaks, the open watches break first.
func refusing(fault faultproxy.Fault, breaks bool) disturbance {
	fault.Action, fault.Times = faultproxy.Refuse, faultproxy.Always
	return func(ctx context.Context, w *World, _ *window, v Variant, drift func() error) (time.Time, error) {
		began := time.Now()
		if err := w.Faults.Inject(fault); err != nil {
			return time.Time{}, err
		}
		defer w.Faults.Heal()
		if breaks {
			w.Faults.Cut(faultproxy.Match{Verb: "watch"})
		}
		if err := drift(); err != nil {
			return time.Time{}, err
		}
		if err := w.wait(ctx, "disturbing", began, v.Seconds); err != nil {
			return time.Time{}, err
		}
		return time.Now(), nil
	}
}

// crashing kills the API server and starts it again.
func crashing(ctx context.Context, w *World, win *window, _ Variant, drift func() error) (time.Time, error) {
	w.Progress("restarting the API server", 0, 0)
	last := len(w.Servers) - 1
	killed, err := UsageOf(w.Servers[last])
	if err != nil {
		return time.Time{}, err
	}
	pid, err := w.RestartServer(ctx)
	if err != nil {
		return time.Time{}, err
	}
	over := time.Now()
	w.Servers[last] = pid
	win.server.CPU -= killed.CPU // The window has the CPU time of both processes.
	return over, drift()
}

// expiring ends all watches. The contender has to list again.
func expiring(_ context.Context, w *World, _ *window, _ Variant, drift func() error) (time.Time, error) {
	w.Faults.Expire(faultproxy.Match{})
	return time.Now(), drift()
}

// calmChildren are the kinds that drift in a disturbance. No other controller takes part in their repair. So it
// does not matter when the other controllers find a new API server.
var calmChildren = children[:2]

// disturbed returns the function of a scenario. The objects have no servers, and become finished before the
// disturbance.
func disturbed(disturb disturbance) func(context.Context, *World, Variant) (rundir.Measured, error) {
	return func(ctx context.Context, w *World, v Variant) (rundir.Measured, error) {
		ctx, win, err := w.openRepairs(ctx, v)
		if err != nil {
			return nil, err
		}
		m, answered, sent := min(v.M, v.N), newTimes(), counter{}
		over, err := disturb(ctx, w, win, v, func() error {
			return asFastAsPossible(ctx, m, func(ctx context.Context, i int) error {
				child, name := calmChildren[i%len(calmChildren)], object("hero", i*v.N/m)
				version, err := w.Clients.drift(ctx, child, name)
				if err != nil {
					return err
				}
				answered.set(child.of(name), time.Now())
				w.Judge.repaired.want(child.of(name), version+1)
				w.Progress("changing children", sent.next(), m)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		if err := w.convergeAndSettle(ctx, w.Judge.repaired, "repaired", v.N); err != nil {
			return nil, err
		}
		measured, samples := rundir.Measured{}, rundir.Samples{}
		addLatencies(measured, samples, w.Judge.repaired, win.from, answered.of)
		delete(measured, rundir.Objects) // Lists and CPU cannot be attributed to one object.
		addRecovery(measured, w.Proxy.Record(), win.from, over)
		w.Samples = samples
		return measured, win.close(measured)
	}
}

var relistsOf = map[string]rundir.Measure{
	"sheroes": rundir.HeroRelists, "statefulsets": rundir.SetRelists, "services": rundir.ServiceRelists,
	"configmaps": rundir.ConfigRelists, "pods": rundir.PodRelists,
}

// addRecovery adds what followed a disturbance in the interval [from, over). The time from its start to the last
// repair is measured already.
func addRecovery(measured rundir.Measured, record proxy.Record, from, over time.Time) {
	converged := from.Add(time.Duration(measured[rundir.Converge] * float64(time.Second)))
	measured[rundir.Disturbance] = over.Sub(from).Seconds()
	measured[rundir.Recovery] = max(0, converged.Sub(over)).Seconds()
	for _, relists := range relistsOf {
		measured[relists] = 0
	}
	count := func(call proxy.Call, isAnswered bool) {
		if call.At.Before(from) || !call.IsCompared() {
			return
		}
		if !call.At.After(converged) {
			measured[rundir.RecoveryCalls]++
		}
		if call.Lists && isAnswered {
			measured[rundir.Relists]++
			if one, is := relistsOf[call.Resource]; is {
				measured[one]++
			}
		}
	}
	measured[rundir.Relists], measured[rundir.RecoveryCalls] = 0, 0
	for _, call := range record.Calls {
		count(call, call.Code >= 200 && call.Code < 300)
	}
	for _, call := range record.Open { // Their status codes are not recorded yet.
		count(call, true)
	}
}

package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// outage is how long a fault stays that does not end by itself.
const outage = 3 * time.Second

var watches = faultproxy.Match{Verb: "watch"}

// disturbances returns all faults of streams, writes, connections, credentials and clocks.
func disturbances() []disturbance {
	// The last cases take a minute. Small samples do not have them.
	return slices.Concat(streamFaults, connectionFaults, writeFaults, credentialFaults, silentFaults)
}

var silentFaults = []disturbance{
	{tokenRefused, 1, 0, func(t *trial) (*effect, error) {
		t.proxy.Rotate()
		err := t.writeKubeconfig(false)
		t.proxy.Drop() // The API server ends no watch of an expired token, but its connections do not last.
		made, _ := done(1)
		return made, err
	}},
	{halfOpen, 1, 0, func(t *trial) (*effect, error) { return done(t.proxy.Stall(watches)) }},
}

var connectionFaults = []disturbance{
	{"reset of all connections", 1, 0, func(t *trial) (*effect, error) { return done(t.proxy.Drop()) }},
	{"half-open connections for 3 s", 1, outage, func(t *trial) (*effect, error) {
		t.proxy.Freeze()
		return lasting(func() error { t.proxy.Thaw(); return nil })
	}},
	{"graceful end of connections", 1, 0, func(t *trial) (*effect, error) {
		return injected(t, faultproxy.Fault{Action: faultproxy.GoAway, Times: 3})
	}},
	{"outage, 503 for 3 s", 1, outage, func(t *trial) (*effect, error) {
		t.proxy.Cut(watches)
		return injected(t, faultproxy.Fault{Action: faultproxy.Refuse, Times: faultproxy.Always})
	}},
	{"outage, connections reset for 3 s", 1, outage, func(t *trial) (*effect, error) {
		t.proxy.Cut(watches)
		return injected(t, faultproxy.Fault{Action: faultproxy.Disconnect, Times: faultproxy.Always})
	}},
	{"slow answers to writes, 3 s", 1, 0, func(t *trial) (*effect, error) {
		return injected(t, faultproxy.Fault{Action: faultproxy.Slow, For: outage, Match: faultproxy.Match{Verb: "patch"}},
			faultproxy.Fault{Action: faultproxy.Slow, For: outage, Match: faultproxy.Match{Verb: "update"}})
	}},
}

var credentialFaults = []disturbance{
	{"certificate of the API server expired for 3 s", 1, outage, func(t *trial) (*effect, error) {
		err := t.proxy.Renew(-time.Minute)
		t.proxy.Drop()
		made, _ := lasting(func() error { return t.proxy.Renew(24 * time.Hour) })
		return made, err
	}},
	{"certificate of the API server replaced", 1, 0, func(t *trial) (*effect, error) {
		err := t.proxy.Renew(24 * time.Hour)
		made, _ := done(t.proxy.Drop())
		return made, err
	}},
	{"certificate of the operator expires, replaced after 1 s", 1, expiry + time.Second, expiring},
	{"token refused for 3 s", 1, outage, func(t *trial) (*effect, error) {
		t.proxy.Cut(watches)
		return injected(t, faultproxy.Fault{Action: faultproxy.Refuse, Code: http.StatusUnauthorized, Times: faultproxy.Always})
	}},
	{"permissions taken away for 3 s", 1, outage, func(t *trial) (*effect, error) {
		t.proxy.Cut(watches)
		return injected(t, faultproxy.Fault{Action: faultproxy.Refuse, Code: http.StatusForbidden, Times: faultproxy.Always})
	}},
	{"process stopped for 3 s, as when the clock jumps", 1, outage, func(t *trial) (*effect, error) {
		running := t.process.Load()
		running.signal(syscall.SIGSTOP)
		return lasting(func() error { running.signal(syscall.SIGCONT); return nil })
	}},
	{"clock of the API server a year ahead", 1, 0, func(t *trial) (*effect, error) { return skewed(t, 365*24*time.Hour) }},
	{"clock of the API server a year behind", 1, 0, func(t *trial) (*effect, error) { return skewed(t, -365*24*time.Hour) }},
}

func done(times int) (*effect, error) {
	made := &effect{}
	if times > 0 {
		made.happened()
	}
	return made, nil
}

// lasting returns a fault that is there until its end.
func lasting(end func() error) (*effect, error) {
	made := &effect{end: end}
	made.happened()
	return made, nil
}

// injected returns faults of the proxy.
func injected(t *trial, faults ...faultproxy.Fault) (*effect, error) {
	err := t.proxy.Inject(faults...)
	made, _ := lasting(func() error { t.proxy.Heal(); return nil })
	return made, err
}

func skewed(t *trial, by time.Duration) (*effect, error) {
	set := func(skew time.Duration) error {
		t.wire.mu.Lock()
		defer t.wire.mu.Unlock()
		t.wire.skew = skew
		return nil
	}
	_ = set(by) // It returns no error.
	return lasting(func() error { return set(0) })
}

var writeFaults = []disturbance{
	refusing("409 Conflict twice", 1, 2, answer{code: http.StatusConflict, reason: "Conflict", message: "the object has been modified"}),
	refusing("429 three times, Retry-After 1 s", 1, 3, answer{code: http.StatusTooManyRequests, reason: "TooManyRequests", message: "slow down", retryAfter: "1"}),
	refusing("500 three times", 1, 3, answer{code: http.StatusInternalServerError, reason: "InternalError", message: "the storage failed"}),
	refusing("503 three times", 1, 3, answer{code: http.StatusServiceUnavailable, reason: "ServiceUnavailable", message: "shutting down"}),
	refusing("reset twice", 1, 2, answer{err: errBroken}),
	refusing("reset after commit", 1, 1, answer{commit: true, err: errBroken}),
	refusing("time-out after commit", 1, 1, answer{commit: true, code: http.StatusGatewayTimeout, reason: "Timeout", message: "request did not complete"}),
	refusing("creations reset after commit", 0, 3, answer{commit: true, err: errBroken}),
	refusing("creations time out after commit", 0, 3, answer{commit: true, code: http.StatusGatewayTimeout, reason: "Timeout", message: "request did not complete"}),
	refusing("creations answered AlreadyExists after commit", 0, 3, answer{commit: true, code: http.StatusConflict, reason: "AlreadyExists", message: "already exists"}),
	refusing("creations answered AlreadyExists, nothing there", 0, 1, answer{code: http.StatusConflict, reason: "AlreadyExists", message: "already exists"}),
	refusing("creations refused by a webhook three times", 0, 3, answer{code: http.StatusForbidden, reason: "Forbidden",
		message: `admission webhook "policy.example.com" denied the request: not now`}),
	refusing("writes refused by a webhook three times", 1, 3, answer{code: http.StatusBadRequest, reason: "BadRequest",
		message: `admission webhook "policy.example.com" denied the request: not now`}),
	refusing("webhook does not answer, twice", 1, 2, answer{code: http.StatusInternalServerError, reason: "InternalError",
		message: `failed calling webhook "policy.example.com": context deadline exceeded`}),
	{"writes: refused by a webhook for 2 s", 1, 2 * time.Second, func(t *trial) (*effect, error) {
		return refusing("", 1, 1000000, answer{code: http.StatusForbidden, reason: "Forbidden",
			message: `admission webhook "policy.example.com" denied the request: not now`}).begin(t)
	}},
	refusing("422 Invalid twice", 1, 2, answer{code: http.StatusUnprocessableEntity, reason: "Invalid", message: "spec: Invalid value"}),
}

// refusing returns a fault that answers a number of writes in the namespace of the trial.
func refusing(name string, step, times int, with answer) disturbance {
	return disturbance{"writes: " + name, step, 0, func(t *trial) (*effect, error) {
		made := &effect{}
		set := func(refuse func(*request.RequestInfo, *http.Request) *answer) {
			t.wire.mu.Lock()
			defer t.wire.mu.Unlock()
			t.wire.refuse = refuse
		}
		made.end = func() error { set(nil); return nil }
		set(func(info *request.RequestInfo, r *http.Request) *answer {
			if !isWrite(info, r) || info.Namespace != t.user.Namespace || (step == 0) != (info.Verb == "create") || made.struck.Load() >= int64(times) {
				return nil
			}
			made.happened()
			is := with
			is.message = fmt.Sprintf("%s %q: %s", info.Resource, info.Name, with.message)
			return &is
		})
		return made, nil
	}}
}

// expiry is how long the certificate of an operator is valid that expires.
const expiry = 4 * time.Second

// expiring restarts the operator with a certificate that is about to expire.
func expiring(t *trial) (*effect, error) {
	renew := func(validity time.Duration) error {
		certificate, key, err := t.proxy.ClientCertificate(validity)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(t.certificateFile(), certificate, 0o600), os.WriteFile(t.keyFile(), key, 0o600))
	}
	if err := errors.Join(renew(expiry), t.writeKubeconfig(true)); err != nil {
		return nil, err
	}
	t.kill()
	if err := t.revive(t.process.Load()); err != nil {
		return nil, err
	}
	return lasting(func() error {
		err := errors.Join(renew(24*time.Hour), t.writeKubeconfig(false)) // A later start has the token again.
		t.proxy.Drop()                                                    // Programs read their certificate again for a new connection.
		return err
	})
}

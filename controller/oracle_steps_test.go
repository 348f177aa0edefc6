package controller_test

import (
	"context"
	"net/http"
	"strings"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// A schedule of the oracle is a text: digits that choose the options, a bar, and steps.
//
//	a ... l    somebody creates or changes a thing: a to d are config maps in the namespaces x, x, y
//	           and z, e to h secrets, i and j nodes, which own a, b and c, d; k is a service account,
//	           and l a limit range, which is watched on demand
//	A ... L    somebody deletes it
//	'          the next change is of an object without the label
//	1 2 :      the next attempt patches its config map; creates a secret; creates a config map
//	           that no watch shows
//	3 4 9 !    it fails; panics; exits; fails, and so do the next three of its key
//	5 6        it asks for another one after a second; after an hour
//	7 = 8 0    it takes 5 s; hangs; fails for good; patches and fails
//	m M p      map functions take a second; hang; the next one panics
//	o r        the handling of results stalls; what hangs or stalls goes on
//	. - _ ~ ^  10 ms, 1 s, 30 s, 70 s, 10 min pass. The manager starts with the first of them
//	N Q O      all watches break; fall silent; the history is dropped
//	S R        a backup is taken; the server is set back to it, or to how the manager found it
//	U u Z      secrets are served no more, or again; service accounts; the next 3 lists get code 404
//	T V W      the next event is an error of code 500; breaks in the middle; is an error of code 410
//	" ;        the next 3 events come twice; the next one comes a second late
//	n q s t    from now on lists hang; watches; second pages of lists; all requests
//	v z        the next 3 lists get code 403; the next 3 requests 401
//	w x y      the next 3 requests get code 429; 500; all requests from now on 503 with Retry-After
//	$ %        the next 3 connections are refused; all
//	& *        the next list is answered with nonsense; all lists and watches
//	/ < >      the next 2 lists or watches take 5 s; the next write loses its answer; takes 5 s
//	+          all faults end
//	( )        the controller of nodes is added; removed
//	[ ]        that of secrets
//	{ }        that of service accounts
//	@ #        limit ranges are wanted; are not
//	X          the manager ends
const oracleSteps = "abcdefghijklABCDEFGHIJKL'12:349!5678=0mMpor.-_~^NQOSRUuZTVW\";nqstvzwxy$%&*/<>+()[]{}@#X"

// step does one step. It does not wait.
func (o *oracle) step(step rune) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case step >= 'a' && step <= 'l':
		if !o.quarantined() {
			o.change(o.thing(byte(step)))
		}
		o.toggled = false
	case step >= 'A' && step <= 'L':
		if !o.quarantined() {
			o.delete(o.thing(byte(step) - 'A' + 'a'))
		}
	case step == '\'':
		o.toggled = true
	case strings.ContainsRune("12:349!5678=0", step):
		o.plans = append(o.plans, step)
	case strings.ContainsRune("mMp", step):
		o.mapMode = step
	case step == 'o':
		o.stalled = true
	case step == 'r':
		o.release()
	default:
		o.disturb(step)
	}
}

// disturb does what befalls the server and the connections to it. The lock is held.
func (o *oracle) disturb(step rune) {
	switch step {
	case 'N':
		o.server.Break()
	case 'Q':
		o.server.Silence()
	case 'O':
		o.server.Compact()
	case 'S':
		o.backUp()
	case 'R':
		if o.snapshot != nil {
			o.restore()
		}
	case 'U', 'u':
		kind := o.kinds[map[rune]int{'U': 1, 'u': 3}[step]]
		if !o.quarantined() {
			o.install(kind, kind.gone)
		}
	case '>':
		o.slowWrites.Store(true)
	case '+':
		o.server.Heal()
	default:
		for _, fault := range oracleFaults[step] {
			if err := o.server.Inject(fault); err != nil {
				o.broken("the fault %c: %w", step, err)
			}
		}
	}
}

const nonsensical = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`

// oracleFaults are the steps that are faults of the server.
var oracleFaults = map[rune][]sourcestest.Fault{
	'Z': {{Action: sourcestest.Refuse, Verb: "list", Code: http.StatusNotFound, Times: 3}},
	'T': {{Action: sourcestest.Fail}},
	'V': {{Action: sourcestest.Cut}},
	'W': {{Action: sourcestest.Expire}},
	'"': {{Action: sourcestest.Duplicate, Times: 3}},
	';': {{Action: sourcestest.Delay}},
	'n': {{Action: sourcestest.Hang, Verb: "list", Times: sourcestest.Always}},
	'q': {{Action: sourcestest.Hang, Verb: "watch", Times: sourcestest.Always}},
	's': {{Action: sourcestest.Hang, Verb: "list", Nth: 2}},
	't': {{Action: sourcestest.Hang, Times: sourcestest.Always}},
	'v': {{Action: sourcestest.Refuse, Verb: "list", Code: http.StatusForbidden, Times: 3}},
	'z': {{Action: sourcestest.Refuse, Code: http.StatusUnauthorized, Times: 3}},
	'w': {{Action: sourcestest.Refuse, Code: http.StatusTooManyRequests, Times: 3}},
	'x': {{Action: sourcestest.Refuse, Code: http.StatusInternalServerError, Times: 3}},
	'y': {{Action: sourcestest.Refuse, Code: http.StatusServiceUnavailable, RetryAfter: time.Second, Times: sourcestest.Always}},
	'$': {{Action: sourcestest.Disconnect, Times: 3}},
	'%': {{Action: sourcestest.Disconnect, Times: sourcestest.Always}},
	'&': {{Action: sourcestest.Answer, Verb: "list", Body: "{}"}},
	'*': {
		{Action: sourcestest.Answer, Verb: "list", Times: sourcestest.Always, Body: nonsensical},
		{Action: sourcestest.Answer, Verb: "watch", Times: sourcestest.Always, Body: nonsensical},
	},
	'/': {{Action: sourcestest.Slow, Verb: "list", For: 5 * time.Second}, {Action: sourcestest.Slow, Verb: "watch", For: 5 * time.Second}},
	'<': {{Action: sourcestest.LoseAnswer, Verb: "patch"}, {Action: sourcestest.LoseAnswer, Verb: "create"}},
}

// controllers adds or removes a controller, or says what is wanted. It is false for other steps.
func (o *oracle) controllers(step rune) (done bool, err error) {
	names := map[rune]string{'(': "nodes", ')': "nodes", '[': "secrets", ']': "secrets", '{': "accounts", '}': "accounts"}
	switch step {
	case '(', '[', '{':
		return true, o.add(names[step])
	case ')', ']', '}':
		o.remove(names[step])
		return true, nil
	case '@', '#':
		controller.Demand[*corev1.LimitRange](o.manager.Client(), step == '@')
		return true, nil
	}
	return false, nil
}

// pass returns how long a step of time takes. Where the server is asked often, the longest one
// is shorter.
func (o *oracle) pass(step rune) time.Duration {
	switch step {
	case '.':
		return 10 * time.Millisecond
	case '-':
		return time.Second
	case '_':
		return min(30*time.Second, 10*o.options.staleness)
	case '~':
		return min(70*time.Second, 20*o.options.staleness)
	case '^':
		return min(10*time.Minute, 20*o.options.staleness)
	}
	return 0
}

// play does all steps, and checks the promises after each. It returns early if the manager has
// ended.
func (o *oracle) play(steps string) error {
	for at, step := range steps {
		wait := o.pass(step)
		done, err := o.controllers(step)
		switch {
		case err != nil:
			return err
		case step == 'X':
			return nil
		case wait > 0:
			o.run()
			<-time.After(wait)
		case !done:
			o.step(step)
		}
		synctest.Wait()
		if o.isOver() {
			return nil
		}
		if err := o.check(); err != nil {
			return atStep(at, step, err)
		}
	}
	return nil
}

// run starts the manager, once.
func (o *oracle) run() {
	if o.started {
		return
	}
	o.started = true
	o.mu.Lock()
	if o.snapshot == nil {
		o.backUp()
	}
	o.mu.Unlock()
	ctx, cancel := context.WithCancel(o.group.Context())
	if o.options.deadline > 0 {
		ctx, cancel = context.WithTimeout(o.group.Context(), o.options.deadline)
	}
	o.end = cancel
	o.running = newGroup(ctx)
	o.running.Go("manager", func(ctx context.Context) error {
		err := o.manager.Run(ctx)
		o.over.Store(true)
		return err
	})
}

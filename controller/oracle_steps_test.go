package controller_test

import (
	"context"
	"net/http"
	"strings"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// A schedule of the oracle is a text: digits that select the options, a bar, and steps of one
// character each. The constants below name the steps, except for these:
//
//	a ... l   another client creates or changes a thing: a to d are config maps in the namespaces
//	          x, x, y and z, e to h secrets in the same ones, i and j nodes; i owns a and b, j owns
//	          c and d; k is a service account, and l a limit range, which is watched on demand
//	A ... L   another client deletes it
//
// The stored fuzz inputs consist of these characters, so a step keeps its character.
const (
	oracleStepUnlabelled = '\'' // the next change is of an object without the label

	// What the next attempt does.
	oracleStepPatch         = '1' // it patches its config map
	oracleStepCreateSecret  = '2' // it creates a secret
	oracleStepCreateOutside = ':' // it creates a config map that no watch shows
	oracleStepFail          = '3' // it fails
	oracleStepPanic         = '4' // it panics
	oracleStepExit          = '9' // it exits its goroutine
	oracleStepKeepFailing   = '!' // it fails, and so do the next three of its key
	oracleStepRequeueSoon   = '5' // it asks for another attempt after a second
	oracleStepRequeueLate   = '6' // it asks for another attempt after an hour
	oracleStepSlow          = '7' // it takes 5 s
	oracleStepHang          = '=' // it hangs until its context ends
	oracleStepTerminal      = '8' // it fails with a terminal error
	oracleStepPatchAndFail  = '0' // it patches its config map and fails

	// Map functions and results.
	oracleStepSlowMaps     = 'm' // map functions take a second
	oracleStepHangMaps     = 'M' // map functions hang
	oracleStepPanicMap     = 'p' // the next map function panics
	oracleStepStallResults = 'o' // the handling of results stalls
	oracleStepRelease      = 'r' // what hangs or stalls continues

	// Time. The manager starts at the first of these steps.
	oracleStep10ms  = '.'
	oracleStep1s    = '-'
	oracleStep30s   = '_'
	oracleStep70s   = '~'
	oracleStep10min = '^'

	// The server.
	oracleStepBreak           = 'N' // all watches break
	oracleStepSilence         = 'Q' // all watches fall silent
	oracleStepCompact         = 'O' // the history is dropped
	oracleStepBackUp          = 'S' // a backup is taken
	oracleStepRestore         = 'R' // the backup is restored; without one, the state that the manager started with
	oracleStepInstallSecrets  = 'U' // secrets are no longer served, or are served again
	oracleStepInstallAccounts = 'u' // the same for service accounts

	// Faults of events.
	oracleStepErrorEvent = 'T' // the next event is an error of code 500
	oracleStepCutEvent   = 'V' // the connection breaks within the next event
	oracleStepExpire     = 'W' // the next event is an error of code 410
	oracleStepDuplicate  = '"' // the next 3 events come twice
	oracleStepDelay      = ';' // the next event comes a second late

	// Faults of requests.
	oracleStepHangLists      = 'n' // lists hang from now on
	oracleStepHangWatches    = 'q' // watches hang from now on
	oracleStepHangSecondList = 's' // the second list request hangs, such as the second page of a list
	oracleStepHangAll        = 't' // all requests hang from now on
	oracleStepNotFound       = 'Z' // the next 3 lists get code 404
	oracleStepForbidden      = 'v' // the next 3 lists get code 403
	oracleStepUnauthorized   = 'z' // the next 3 requests get code 401
	oracleStepThrottle       = 'w' // the next 3 requests get code 429
	oracleStepInternalError  = 'x' // the next 3 requests get code 500
	oracleStepUnavailable    = 'y' // all requests from now on get code 503 with Retry-After
	oracleStepRefuse         = '$' // the next 3 connections are refused
	oracleStepRefuseAll      = '%' // all connections from now on are refused
	oracleStepNonsense       = '&' // the next list is answered with nonsense
	oracleStepNonsenseAll    = '*' // all lists and watches from now on are answered with nonsense
	oracleStepSlowReads      = '/' // the next list and the next watch take 5 s
	oracleStepLoseAnswers    = '<' // the next patch and the next creation lose their answers
	oracleStepSlowWrite      = '>' // the next write takes 5 s
	oracleStepGoAway         = 'Y' // the connection of all watches ends by a GOAWAY, and the next 2 requests lose their answers
	oracleStepRotate         = 'P' // the server accepts another token only, and the manager's file has it
	oracleStepExpireToken    = ',' // the same, and the file has the old token until the next rotation
	oracleStepHeal           = '+' // all faults end, but for an expired token

	// Controllers.
	oracleStepAddNodes       = '('
	oracleStepRemoveNodes    = ')'
	oracleStepAddSecrets     = '['
	oracleStepRemoveSecrets  = ']'
	oracleStepAddAccounts    = '{'
	oracleStepRemoveAccounts = '}'
	oracleStepDemand         = '@' // limit ranges are wanted
	oracleStepEndDemand      = '#' // limit ranges are no longer wanted

	oracleStepEnd = 'X' // the manager ends
)

const (
	oraclePlans    = "12:349!5678=0" // the steps that say what the next attempt does
	oracleMapModes = "mMp"           // the steps that say what map functions do
	oracleTokens   = "P,"            // the steps for which the server demands a token
	oracleHangs    = "nqst"          // the steps after which requests hang
	oraclePatience = "wy"            // the steps after which the server sends Retry-After

	// oracleSteps holds all steps. Fuzz inputs select unknown steps by their index, so the order stays.
	oracleSteps = "abcdefghijklABCDEFGHIJKL'12:349!5678=0mMpor.-_~^NQOSRUuZTVW\";nqstvzwxy$%&*/<>+()[]{}@#XYP,"
)

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
	case step == oracleStepUnlabelled:
		o.toggled = true
	case strings.ContainsRune(oraclePlans, step):
		o.plans = append(o.plans, step)
	case strings.ContainsRune(oracleMapModes, step):
		o.mapMode = step
	case step == oracleStepStallResults:
		o.stalled = true
	case step == oracleStepRelease:
		o.release()
	default:
		o.disturb(step)
	}
}

// disturb does a step of the server or of the connections to it. The caller holds o.mu.
func (o *oracle) disturb(step rune) {
	switch step {
	case oracleStepBreak:
		o.server.Break()
	case oracleStepSilence:
		o.server.Silence()
	case oracleStepCompact:
		o.server.Compact()
	case oracleStepBackUp:
		o.backUp()
	case oracleStepRestore:
		if o.snapshot != nil {
			o.restore()
		}
	case oracleStepInstallSecrets, oracleStepInstallAccounts:
		kind := o.kinds[map[rune]int{oracleStepInstallSecrets: 1, oracleStepInstallAccounts: 3}[step]]
		if !o.quarantined() {
			o.install(kind, kind.gone)
		}
	case oracleStepSlowWrite:
		o.slowWrites.Store(true)
	case oracleStepGoAway:
		o.goAway()
	case oracleStepRotate, oracleStepExpireToken:
		o.credentials.expire()
		if step == oracleStepRotate {
			if err := o.credentials.write(); err != nil {
				o.broken("writing the token: %w", err)
			}
		}
	case oracleStepHeal:
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

// oracleFaults maps steps to faults of the server.
var oracleFaults = map[rune][]sourcestest.Fault{
	oracleStepNotFound:       {{Action: sourcestest.Refuse, Verb: "list", Code: http.StatusNotFound, Times: 3}},
	oracleStepErrorEvent:     {{Action: sourcestest.Fail}},
	oracleStepCutEvent:       {{Action: sourcestest.Cut}},
	oracleStepExpire:         {{Action: sourcestest.Expire}},
	oracleStepDuplicate:      {{Action: sourcestest.Duplicate, Times: 3}},
	oracleStepDelay:          {{Action: sourcestest.Delay}},
	oracleStepHangLists:      {{Action: sourcestest.Hang, Verb: "list", Times: sourcestest.Always}},
	oracleStepHangWatches:    {{Action: sourcestest.Hang, Verb: "watch", Times: sourcestest.Always}},
	oracleStepHangSecondList: {{Action: sourcestest.Hang, Verb: "list", Nth: 2}},
	oracleStepHangAll:        {{Action: sourcestest.Hang, Times: sourcestest.Always}},
	oracleStepForbidden:      {{Action: sourcestest.Refuse, Verb: "list", Code: http.StatusForbidden, Times: 3}},
	oracleStepUnauthorized:   {{Action: sourcestest.Refuse, Code: http.StatusUnauthorized, Times: 3}},
	oracleStepThrottle:       {{Action: sourcestest.Refuse, Code: http.StatusTooManyRequests, Times: 3}},
	oracleStepInternalError:  {{Action: sourcestest.Refuse, Code: http.StatusInternalServerError, Times: 3}},
	oracleStepUnavailable:    {{Action: sourcestest.Refuse, Code: http.StatusServiceUnavailable, RetryAfter: time.Second, Times: sourcestest.Always}},
	oracleStepRefuse:         {{Action: sourcestest.Disconnect, Times: 3}},
	oracleStepRefuseAll:      {{Action: sourcestest.Disconnect, Times: sourcestest.Always}},
	oracleStepNonsense:       {{Action: sourcestest.Answer, Verb: "list", Body: "{}"}},
	oracleStepNonsenseAll: {
		{Action: sourcestest.Answer, Verb: "list", Times: sourcestest.Always, Body: nonsensical},
		{Action: sourcestest.Answer, Verb: "watch", Times: sourcestest.Always, Body: nonsensical},
	},
	oracleStepSlowReads:   {{Action: sourcestest.Slow, Verb: "list", For: 5 * time.Second}, {Action: sourcestest.Slow, Verb: "watch", For: 5 * time.Second}},
	oracleStepLoseAnswers: {{Action: sourcestest.LoseAnswer, Verb: "patch"}, {Action: sourcestest.LoseAnswer, Verb: "create"}},
}

// controllers adds or removes a controller, or sets a demand. done reports whether the step is one
// of these.
func (o *oracle) controllers(step rune) (done bool, err error) {
	names := map[rune]string{
		oracleStepAddNodes: "nodes", oracleStepAddSecrets: "secrets", oracleStepAddAccounts: "accounts",
		oracleStepRemoveNodes: "nodes", oracleStepRemoveSecrets: "secrets", oracleStepRemoveAccounts: "accounts",
	}
	switch step {
	case oracleStepAddNodes, oracleStepAddSecrets, oracleStepAddAccounts:
		return true, o.add(names[step])
	case oracleStepRemoveNodes, oracleStepRemoveSecrets, oracleStepRemoveAccounts:
		o.remove(names[step])
		return true, nil
	case oracleStepDemand, oracleStepEndDemand:
		setClaim[*corev1.LimitRange](o.manager.Client(), &o.claim, step == oracleStepDemand)
		return true, nil
	}
	return false, nil
}

// pass returns how long a step of time takes, or 0 for other steps. With a short MaxStaleness, the
// long steps are shorter, as the server is probed more often.
func (o *oracle) pass(step rune) time.Duration {
	switch step {
	case oracleStep10ms:
		return 10 * time.Millisecond
	case oracleStep1s:
		return time.Second
	case oracleStep30s:
		return min(30*time.Second, 10*o.options.staleness)
	case oracleStep70s:
		return min(70*time.Second, 20*o.options.staleness)
	case oracleStep10min:
		return min(10*time.Minute, 20*o.options.staleness)
	}
	return 0
}

// play does all steps, and checks the promises after each. It returns early if the manager has
// ended.
func (o *oracle) play(steps string) error {
	defer jumpClock(0)
	for at, step := range steps {
		jumpClock(clockOffsets[at%len(clockOffsets)])
		wait := o.pass(step)
		done, err := o.controllers(step)
		switch {
		case err != nil:
			return err
		case step == oracleStepEnd:
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

// run starts the manager, if it was not started yet.
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

package controller_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// oracleMember is a controller of the manager, from Add to the return of Remove.
type oracleMember struct {
	name     string
	leaving  bool
	attempts map[types.NamespacedName]*oracleAttempt // the last one of each key
	fails    map[types.NamespacedName]int            // how many of the next attempts of each key fail
	running  int
}

// oracleAttempt is the last attempt of a key.
type oracleAttempt struct {
	letter   byte
	read     map[*oracleThing]string
	plan     rune
	running  bool
	failures int // in a row
	failed   bool
	terminal bool
	again    bool // it asked for another attempt
}

// oracleKeys maps each controller to its keys, and each key to the things that an attempt reads.
// A change of such a thing requests the key.
var oracleKeys = map[string]map[byte]string{
	"configs":  {'a': "aeh", 'b': "bfl", 'c': "cg", 'd': "d"},
	"nodes":    {'i': "iab", 'j': "jcd"},
	"secrets":  {'e': "e", 'f': "f", 'g': "g", 'h': "h"},
	"accounts": {'k': "kefgh"},
}

// oracleNeeds maps each controller to the resources of the kinds that it waits for.
var oracleNeeds = map[string][]string{
	"configs": {"configmaps", "secrets"}, "nodes": {"nodes", "configmaps"}, "secrets": {"secrets"}, "accounts": {"serviceaccounts", "secrets"},
}

// slim is a projection of a secret.
type slim struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

// DeepCopyObject returns a copy that shares nothing.
func (s *slim) DeepCopyObject() apiruntime.Object {
	return &slim{s.TypeMeta, *s.ObjectMeta.DeepCopy()}
}

var slimmed = func(whole *corev1.Secret) *slim {
	return &slim{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(whole.Annotations)}}
}

// add adds a controller, before the manager runs or while it does.
func (o *oracle) add(name string) error {
	o.mu.Lock()
	if o.members[name] != nil {
		o.mu.Unlock()
		return nil
	}
	made := &oracleMember{name: name, attempts: map[types.NamespacedName]*oracleAttempt{}, fails: map[types.NamespacedName]int{}}
	o.members[name] = made
	o.mu.Unlock()
	var config, secret streams.Object = &corev1.ConfigMap{}, &corev1.Secret{}
	var configOptions, secretOptions []controller.InputOption
	if o.options.metadata {
		config = &controller.Metadata[corev1.ConfigMap]{}
	}
	if o.options.selects {
		configOptions = append(configOptions, controller.LabelSelector(oracleLabel))
	}
	if o.options.projects {
		secret, secretOptions = &slim{}, append(secretOptions, controller.Project(slimmed))
	}
	var options []controller.Option
	switch name {
	case "configs":
		options = []controller.Option{
			controller.For(config, configOptions...), controller.Watches(secret, o.mapped(name), secretOptions...),
			controller.Watches(&corev1.LimitRange{}, o.mapped(name), controller.OnDemand()),
		}
	case "nodes":
		options = []controller.Option{controller.For(&corev1.Node{}, controller.ClusterScoped()), controller.Owns(config, configOptions...)}
	case "secrets":
		options = []controller.Option{controller.For(secret, secretOptions...)}
	case "accounts":
		options = []controller.Option{controller.For(&corev1.ServiceAccount{}), controller.Watches(secret, o.mapped(name), secretOptions...)}
	}
	if o.options.ignoresEchoes {
		options = append(options, controller.IgnoreEchoes())
	}
	return o.manager.Add(name, o.reconciler(made), options...)
}

// remove begins the removal of a controller. The removal ends with the last attempt.
func (o *oracle) remove(name string) {
	o.mu.Lock()
	leaving := o.members[name]
	if leaving == nil || leaving.leaving {
		o.mu.Unlock()
		return
	}
	leaving.leaving = true
	o.mu.Unlock()
	o.group.Go("removal of "+name, func(ctx context.Context) error {
		err := o.manager.Remove(ctx, name)
		o.mu.Lock()
		defer o.mu.Unlock()
		if err == nil {
			delete(o.members, name)
		}
		return nil // Remove fails if the manager ends first.
	})
}

// mapped returns the map function of a controller. It may be slow, hang or panic.
func (o *oracle) mapped(name string) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) (keys []types.NamespacedName) {
		o.mu.Lock()
		mode, released := o.mapMode, o.released
		if mode == oracleStepPanicMap {
			o.mapMode = 0
		}
		o.mapping++
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.mapping--
		}()
		switch mode {
		case oracleStepSlowMaps:
			<-time.After(time.Second)
		case oracleStepHangMaps:
			<-released
		case oracleStepPanicMap:
			panic(errPlanned)
		}
		letter := object.GetName()[0]
		for key, reads := range oracleKeys[name] {
			for _, read := range reads {
				if byte(read) == letter && key != letter {
					keys = append(keys, o.thing(key).name)
				}
			}
		}
		return keys
	}
}

// reconciler returns a reconciler that reads the things of a key, and then carries out its plan.
func (o *oracle) reconciler(member *oracleMember) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (again time.Duration, err error) {
		letter := request.Name[0]
		if oracleKeys[member.name][letter] == "" {
			return 0, nil // An object that createOutside has created.
		}
		attempt, plan := o.start(member, letter, request.NamespacedName)
		panicked := true
		defer func() { o.finish(member, attempt, again, err, panicked) }()
		again, err = o.carryOut(ctx, attempt, plan)
		panicked = false
		return again, err
	}
}

// start records what an attempt reads, and returns the attempt and its plan.
func (o *oracle) start(member *oracleMember, letter byte, key types.NamespacedName) (*oracleAttempt, rune) {
	o.mu.Lock()
	defer o.mu.Unlock()
	attempt := member.attempts[key]
	if attempt == nil {
		attempt = &oracleAttempt{letter: letter}
		member.attempts[key] = attempt
	}
	if attempt.running {
		o.broken("%s is reconciled twice at once by %s", key, member.name)
	}
	attempt.running = true
	member.running++
	attempt.read = map[*oracleThing]string{}
	for _, read := range oracleKeys[member.name][letter] {
		thing := o.thing(byte(read))
		attempt.read[thing] = o.read(thing)
	}
	attempt.plan = o.plan(member, key)
	return attempt, attempt.plan
}

// plan takes the plan of an attempt: the step that says what it does, or 0. The caller holds o.mu.
func (o *oracle) plan(member *oracleMember, key types.NamespacedName) rune {
	switch {
	case o.ending:
		return 0
	case member.fails[key] > 0:
		member.fails[key]--
		return oracleStepFail
	case len(o.plans) == 0:
		return 0
	}
	plan := o.plans[0]
	o.plans = o.plans[1:]
	if plan == oracleStepKeepFailing {
		member.fails[key] = 3
		return oracleStepFail
	}
	return plan
}

func (o *oracle) finish(member *oracleMember, attempt *oracleAttempt, again time.Duration, err error, panicked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	attempt.running = false
	member.running--
	attempt.failed = err != nil || panicked
	attempt.terminal = attempt.failed && attempt.plan == oracleStepTerminal
	attempt.again = again > 0
	if attempt.failures++; !attempt.failed {
		attempt.failures = 0
	}
}

// carryOut carries out the plan of an attempt.
func (o *oracle) carryOut(ctx context.Context, attempt *oracleAttempt, plan rune) (time.Duration, error) {
	switch plan {
	case oracleStepPatch:
		return 0, o.patch(ctx, attempt)
	case oracleStepCreateSecret:
		return 0, o.createChild(ctx, attempt)
	case oracleStepFail:
		return 0, errPlanned
	case oracleStepPanic:
		panic(errPlanned)
	case oracleStepRequeueSoon:
		return time.Second, nil
	case oracleStepRequeueLate:
		return time.Hour, nil
	case oracleStepSlow:
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	case oracleStepTerminal:
		return 0, operators.Terminal(errPlanned)
	case oracleStepExit:
		runtime.Goexit()
	case oracleStepPatchAndFail:
		return 0, errors.Join(o.patch(ctx, attempt), errPlanned)
	case oracleStepHang:
		<-ctx.Done()
		return 0, ctx.Err()
	case oracleStepCreateOutside:
		return 0, o.createOutside(ctx)
	}
	return 0, nil
}

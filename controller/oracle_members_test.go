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
	fails    map[types.NamespacedName]int            // of the next attempts of a key
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
	again    bool // it asked for another one
}

// oracleKeys are the keys of each controller, and the things that an attempt of each reads.
// Its rules name the key when one of those changes.
var oracleKeys = map[string]map[byte]string{
	"configs":  {'a': "aeh", 'b': "bfl", 'c': "cg", 'd': "d"},
	"nodes":    {'i': "iab", 'j': "jcd"},
	"secrets":  {'e': "e", 'f': "f", 'g': "g", 'h': "h"},
	"accounts": {'k': "kefgh"},
}

// oracleNeeds are the kinds that each controller waits for, by what they are called in URLs.
var oracleNeeds = map[string][]string{
	"configs": {"configmaps", "secrets"}, "nodes": {"nodes", "configmaps"}, "secrets": {"secrets"}, "accounts": {"serviceaccounts", "secrets"},
}

// slim is what is kept of a secret, where not all of it is.
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

// remove removes a controller. It may take until its attempts have ended.
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
		return nil // It fails where the manager ends before.
	})
}

// mapped is the map function of a controller: it may be slow, hang or panic.
func (o *oracle) mapped(name string) func(streams.Object) []types.NamespacedName {
	return func(object streams.Object) (keys []types.NamespacedName) {
		o.mu.Lock()
		mode, released := o.mapMode, o.released
		if mode == 'p' {
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
		case 'm':
			<-time.After(time.Second)
		case 'M':
			<-released
		case 'p':
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

// reconciler reads what concerns a key, and does what is planned.
func (o *oracle) reconciler(member *oracleMember) operators.Reconciler {
	return func(ctx context.Context, request operators.Request) (again time.Duration, err error) {
		letter := request.Name[0]
		if oracleKeys[member.name][letter] == "" {
			return 0, nil // An object that a step has created beside the things.
		}
		attempt, plan := o.start(member, letter, request.NamespacedName)
		panicked := true
		defer func() { o.finish(member, attempt, again, err, panicked) }()
		again, err = o.carryOut(ctx, attempt, plan)
		panicked = false
		return again, err
	}
}

// start notes what an attempt reads, and returns what it has to do.
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

// plan returns what an attempt has to do. The lock is held.
func (o *oracle) plan(member *oracleMember, key types.NamespacedName) rune {
	switch {
	case o.ending:
		return 0
	case member.fails[key] > 0:
		member.fails[key]--
		return '3'
	case len(o.plans) == 0:
		return 0
	}
	plan := o.plans[0]
	o.plans = o.plans[1:]
	if plan == '!' {
		member.fails[key] = 3
		return '3'
	}
	return plan
}

func (o *oracle) finish(member *oracleMember, attempt *oracleAttempt, again time.Duration, err error, panicked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	attempt.running = false
	member.running--
	attempt.failed = err != nil || panicked
	attempt.terminal = attempt.failed && attempt.plan == '8'
	attempt.again = again > 0
	if attempt.failures++; !attempt.failed {
		attempt.failures = 0
	}
}

// carryOut does what an attempt has to do.
func (o *oracle) carryOut(ctx context.Context, attempt *oracleAttempt, plan rune) (time.Duration, error) {
	switch plan {
	case '1':
		return 0, o.patch(ctx, attempt)
	case '2':
		return 0, o.createChild(ctx, attempt)
	case '3':
		return 0, errPlanned
	case '4':
		panic(errPlanned)
	case '5':
		return time.Second, nil
	case '6':
		return time.Hour, nil
	case '7':
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	case '8':
		return 0, operators.Terminal(errPlanned)
	case '9':
		runtime.Goexit()
	case '0':
		return 0, errors.Join(o.patch(ctx, attempt), errPlanned)
	case '=':
		<-ctx.Done()
		return 0, ctx.Err()
	case ':':
		return 0, o.createOutside(ctx)
	}
	return 0, nil
}

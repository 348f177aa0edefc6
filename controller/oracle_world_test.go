package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The oracle of the levels runs a whole manager over a fake API server, in virtual time. It records
// what the server held at which time. After each step of a schedule it compares the promises of the
// level with that record: see oracle_promises_test.go.

const (
	oracleToken = "t" // the annotation that identifies a state: no two states of a schedule have the same value
	oracleLabel = "l"
)

// oracleKind is one kind of objects at the server.
type oracleKind struct {
	resource   string
	group      schema.GroupKind
	namespaced bool
	make       func(name types.NamespacedName) streams.Object
	paths      map[string]*oraclePath // by namespace; "" is all of them
	gone       bool                   // the server does not serve it
	refused    bool                   // the server refused a list in this life of the kind
	barred     bool                   // the server refused a list, and the source made no other request in its place
}

func (k *oracleKind) path(namespace string) *oraclePath {
	if k.paths[namespace] == nil {
		k.paths[namespace] = &oraclePath{}
	}
	return k.paths[namespace]
}

// oracle is a server, a manager, and a record of what the server held.
type oracle struct {
	options oracleOptions
	server  *sourcestest.Server
	manager *controller.Manager
	group   *lifecycle.Group // of the removals, beside the manager
	running *lifecycle.Group // of the manager
	end     context.CancelFunc
	started bool
	over    atomic.Bool // the manager has ended
	claim   *controller.Claim

	slowWrites atomic.Bool
	goAways    oracleGoAways

	mu           sync.Mutex // guards the fields below, and kinds, things and members
	wrong        error      // the first promise that was broken
	kinds        []*oracleKind
	things       []*oracleThing
	configs      *oracleKind
	demanded     *oracleKind
	members      map[string]*oracleMember
	tokens       int
	credentials  oracleCredentials
	snapshot     *sourcestest.Snapshot
	snapshotGone []bool
	plans        []rune        // what the next attempts do
	ending       bool          // attempts do nothing but read
	mapping      int           // map functions that are running
	mapMode      rune          // the step that says what map functions do, or 0
	handling     int           // results that are being handled
	stalled      bool          // the handling of results stalls
	released     chan struct{} // closed when what hangs or stalls continues
	toggled      bool          // the next change is of an object without the label
	held         []string      // the tokens in the cache when all goroutines were last blocked
	restedAt     time.Time     // the time of held
	changedAfter time.Time     // the time of the last check before the cache changed
}

var oracleScheme = func() *runtime.Scheme {
	made := runtime.NewScheme()
	version := schema.GroupVersion{Version: "v1"}
	made.AddKnownTypes(version, &corev1.ConfigMap{}, &corev1.ConfigMapList{}, &corev1.Secret{}, &corev1.SecretList{}, &corev1.Node{}, &corev1.NodeList{},
		&corev1.ServiceAccount{}, &corev1.ServiceAccountList{}, &corev1.LimitRange{}, &corev1.LimitRangeList{})
	metav1.AddToGroupVersion(made, version)
	return made
}()

// newOracle creates a server, and a manager that does not run yet.
func newOracle(t *testing.T, options oracleOptions) (*oracle, error) {
	o := &oracle{options: options, members: map[string]*oracleMember{}, released: make(chan struct{}), restedAt: time.Now(), changedAfter: time.Now().Add(-time.Hour)}
	o.populate()
	serves := options.server
	serves.Scheme = oracleScheme
	var err error
	if o.server, err = sourcestest.New(serves); err != nil {
		return nil, err
	}
	config := o.server.Config()
	config.Transport = &oracleWire{o}
	if options.tokens {
		if config.BearerTokenFile, err = o.useTokens(t.TempDir()); err != nil {
			return nil, err
		}
	}
	o.manager, err = controller.NewManager(config, oracleScheme, controller.Options{
		Namespaces: options.namespaces, PageSize: options.pages, Window: options.window, MaxStaleness: options.staleness,
		Workers: 3, Backoff: operators.Backoff{First: time.Second, Max: oracleBackoff}, Timeout: oracleTimeout, Grace: oracleGrace,
		Logger: slog.New(slog.DiscardHandler), OnError: func(error) {}, OnResult: o.onResult,
	})
	if err != nil {
		return nil, err
	}
	o.group = lifecycle.New(t.Context())
	return o, o.add("configs")
}

const (
	oracleBackoff = 5 * time.Second
	oracleTimeout = 15 * time.Second
	oracleGrace   = 20 * time.Second
)

// populate creates the kinds and things.
func (o *oracle) populate() {
	kinds := map[byte]*oracleKind{}
	add := func(letter byte, kind, resource string, namespaced bool, made func(metav1.ObjectMeta) streams.Object) {
		kinds[letter] = &oracleKind{
			resource: resource, group: schema.GroupKind{Kind: kind}, namespaced: namespaced, paths: map[string]*oraclePath{},
			make: func(name types.NamespacedName) streams.Object {
				return made(metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name})
			},
		}
		o.kinds = append(o.kinds, kinds[letter])
	}
	add('c', "ConfigMap", "configmaps", true, func(m metav1.ObjectMeta) streams.Object { return &corev1.ConfigMap{ObjectMeta: m} })
	add('s', "Secret", "secrets", true, func(m metav1.ObjectMeta) streams.Object { return &corev1.Secret{ObjectMeta: m} })
	add('n', "Node", "nodes", false, func(m metav1.ObjectMeta) streams.Object { return &corev1.Node{ObjectMeta: m} })
	add('k', "ServiceAccount", "serviceaccounts", true, func(m metav1.ObjectMeta) streams.Object { return &corev1.ServiceAccount{ObjectMeta: m} })
	add('l', "LimitRange", "limitranges", true, func(m metav1.ObjectMeta) streams.Object { return &corev1.LimitRange{ObjectMeta: m} })
	o.configs, o.demanded = kinds['c'], kinds['l']
	for _, each := range strings.Fields("cxa cxb cyc czd sxe sxf syg szh n-i n-j kxk lxl") {
		thing := &oracleThing{letter: each[2], kind: kinds[each[0]], states: []oracleState{{}}}
		thing.name.Name = each[2:]
		if thing.kind.namespaced {
			thing.name.Namespace = each[1:2]
		}
		o.things = append(o.things, thing)
	}
	o.held = make([]string, len(o.things))
}

func (o *oracle) thing(letter byte) *oracleThing { return o.things[letter-'a'] }

// broken records the first promise that was broken. The caller holds o.mu.
func (o *oracle) broken(format string, details ...any) {
	if o.wrong == nil {
		o.wrong = fmt.Errorf(format, details...)
	}
}

// token returns a token that no state has had. The caller holds o.mu.
func (o *oracle) token() string {
	o.tokens++
	return fmt.Sprint(o.tokens)
}

// owners maps config maps to the nodes that control them.
var owners = map[byte]string{'a': "i", 'b': "i", 'c': "j", 'd': "j"}

// change creates or changes a thing, as another client does. The caller holds o.mu.
func (o *oracle) change(thing *oracleThing) {
	object := thing.kind.make(thing.name)
	object.SetAnnotations(map[string]string{oracleToken: o.token()})
	if !o.toggled {
		object.SetLabels(map[string]string{oracleLabel: "1"})
	}
	if owner := owners[thing.letter]; owner != "" {
		isController := true
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner, Controller: &isController}})
	}
	if o.server.Update(object) != nil {
		_ = o.server.Create(object) // This fails if the kind is not served, and then no watch shows the thing.
	}
	o.look(thing)
}

// delete deletes a thing, as another client does. The caller holds o.mu.
func (o *oracle) delete(thing *oracleThing) {
	_ = o.server.Delete(thing.kind.make(thing.name))
	o.look(thing)
}

// install makes the server serve a kind, or stop serving it. It does nothing if that is no change.
// The caller holds o.mu.
func (o *oracle) install(kind *oracleKind, served bool) {
	if kind.gone != served {
		return
	}
	object := kind.make(types.NamespacedName{Namespace: "x", Name: "x"})
	change := o.server.Uninstall
	if served {
		change = o.server.Install
	}
	if err := change(object); err != nil {
		o.broken("installing %s: %w", kind.resource, err)
	}
	kind.gone = !served
	for _, thing := range o.things {
		if thing.kind == kind {
			o.look(thing)
		}
	}
}

// onResult handles a result. It stalls while the schedule says so.
func (o *oracle) onResult(operators.Result) {
	o.mu.Lock()
	o.handling++
	released, stalled := o.released, o.stalled
	o.mu.Unlock()
	if stalled {
		<-released
	}
	o.mu.Lock()
	o.handling--
	o.mu.Unlock()
}

// release lets map functions and results that hang or stall continue. The caller holds o.mu.
func (o *oracle) release() {
	o.mapMode, o.stalled = 0, false
	close(o.released)
	o.released = make(chan struct{})
}

package compat_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// program is a function of a ported program that creates its manager.
type program = func(*rest.Config, controller.Options) (*compat.Manager, error)

// portedProgram returns the function of a program that copies ConfigMaps into Secrets.
func portedProgram(version ported) program {
	return func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		mgr, err := compat.NewManager(config, options(), ours)
		if err != nil {
			return nil, err
		}
		old := version
		old.Client = mgr.GetClient()
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("copies").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&old)
	}
}

// asCopies returns a program whose writes have the field manager that Bellerophon's own controller has.
func asCopies(of program) program {
	return func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		ours.FieldManager = "copies"
		return of(config, ours)
	}
}

// starting returns how a program is started, with the user agent of a binary of its own.
func starting(of program) func(*rest.Config, controller.Options) (func(context.Context) error, error) {
	return func(config *rest.Config, ours controller.Options) (func(context.Context) error, error) {
		config.UserAgent = "stables/v1"
		mgr, err := of(config, ours)
		if err != nil {
			return nil, err
		}
		return mgr.Start, nil
	}
}

func TestAProgramWithTheManagerOfCompatIsReplayed(t *testing.T) {
	dir := t.TempDir()
	recordInto(t, dir, starting(portedProgram(ported{})))
	of := opened(t, dir)
	if of.UserAgent != "stables/v1" {
		t.Errorf("the recording has the user agent %q", of.UserAgent)
	}
	equal(t, of, compat.Setup(portedProgram(ported{})))

	replayed := replaytest.Replay(t, of, compat.Setup(portedProgram(ported{suffix: "!"})))
	for _, difference := range replayed.Differences {
		text := strings.Join(difference.Lines, "\n")
		if difference.Controller != "copies" || !strings.Contains(text, "/secrets") {
			t.Errorf("an attempt of %s differs so:\n%s", difference.Controller, text)
		}
	}
	if len(replayed.Differences) < 50 {
		t.Errorf("a version that writes other labels differs in %d attempts", len(replayed.Differences))
	}
}

func TestAPortedProgramDecidesInAReplayAsTheOneItReplaces(t *testing.T) {
	equal(t, recorded(t, nativeSetup), compat.Setup(asCopies(portedProgram(ported{}))))
	dir := t.TempDir()
	recordInto(t, dir, starting(asCopies(portedProgram(ported{}))))
	equal(t, opened(t, dir), nativeSetup)
}

func TestAnIncidentOfAPortedProgramBecomesATest(t *testing.T) {
	dir := t.TempDir()
	recordInto(t, dir, starting(portedProgram(ported{suffix: "!"})))
	of := opened(t, dir)
	incident, err := replaytest.FindIncident(of, "", types.NamespacedName{Namespace: "default", Name: "hero-3"})
	if err != nil {
		t.Fatal(err)
	}
	shrunk, err := replaytest.Shrink(t, of, compat.Setup(portedProgram(ported{suffix: "!"})), incident)
	if err != nil {
		t.Fatal(err)
	}
	if len(shrunk.Records) > len(of.Records)/10 {
		t.Errorf("%d of %d records are left", len(shrunk.Records), len(of.Records))
	}
	path := filepath.Join(t.TempDir(), "incident.recording")
	if err := shrunk.Save(path); err != nil {
		t.Fatal(err)
	}
	if how := replaytest.Happens(t, opened(t, path), compat.Setup(portedProgram(ported{suffix: "!"})), incident); !strings.Contains(how, "fieldManager=stables") {
		t.Errorf("the incident happens so: %q", how)
	}
	mended := func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		mgr, err := compat.NewManager(config, options(), ours)
		if err != nil {
			return nil, err
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("copies").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&webReconciler{mgr.GetClient()})
	}
	replaytest.DoesNotHappen(t, path, compat.Setup(mended), incident)
}

func TestAPortedProgramRunsAsAShadow(t *testing.T) {
	for suffix, differs := range map[string]bool{"": false, "!": true} {
		t.Run("with labels that end in "+suffix, func(t *testing.T) {
			t.Parallel()
			attempts, differing := shadowed(t, compat.Setup(portedProgram(ported{suffix: suffix})))
			if attempts < 50 || differing > 0 != differs {
				t.Errorf("of %d attempts, %d differ", attempts, differing)
			}
		})
	}
}

// shadowed runs a version beside a program. It returns how many attempts were compared, and how many of them differ.
func shadowed(t *testing.T, version controller.Setup) (attempts, differing int) {
	t.Helper()
	dir, begun := t.TempDir(), make(chan struct{})
	batches := make(chan recording.Batch)
	follow, enough := context.WithCancel(t.Context())
	group := lifecycle.New(t.Context())
	group.Go("program", func(context.Context) error {
		recordInto(t, dir, func(config *rest.Config, ours controller.Options) (func(context.Context) error, error) {
			defer close(begun)
			return starting(portedProgram(ported{}))(config, ours)
		})
		<-time.After(2 * time.Second) // A record counts as sorted after a second.
		enough()
		return nil
	})
	group.Go("follow", func(context.Context) error {
		defer close(batches)
		<-begun
		return recording.Follow(follow, dir, func(batch recording.Batch) error {
			batches <- batch
			return nil
		})
	})
	synctest.Test(t, func(t *testing.T) {
		if err := controller.Shadow(t.Context(), batches, version, synctest.Wait, func(_ controller.Made, difference *controller.Difference) {
			if attempts++; difference != nil {
				differing++
			}
		}); err != nil {
			t.Error(err)
		}
	})
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	return attempts, differing
}

// heroesProgram returns the function of a program that uses what a builder offers, reads from the API server and records Events.
func heroesProgram(namespace, extra string) program {
	return func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		given := options()
		given.LeaderElection, given.LeaderElectionNamespace, given.LeaderElectionID = true, namespace, "heroes"
		ours.Namespaces = []string{namespace}
		mgr, err := compat.NewManager(config, given, ours)
		if err != nil {
			return nil, err
		}
		events, api, current := mgr.GetEventRecorder("heroes"), mgr.GetAPIReader(), mgr.GetEventRecorderFor("old") //nolint:staticcheck // Programs still use it.
		clients, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()})
		if err != nil {
			return nil, err
		}
		operator := &heroes{Client: mgr.GetClient(), events: make(chan event.GenericEvent), calls: map[string]int{}}
		operator.inform = func(ctx context.Context, hero *corev1.ConfigMap) error {
			events.Eventf(hero, nil, corev1.EventTypeNormal, "Seen", "See", "%s was seen", hero.Name)
			current.Event(hero, corev1.EventTypeNormal, "Seen", "again")
			account, policies := &corev1.ServiceAccount{}, &unstructured.UnstructuredList{}
			policies.SetGroupVersionKind(schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicyList"})
			return errors.Join(
				client.IgnoreNotFound(api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: hero.Name + extra}, account)),
				clients.List(ctx, policies, client.InNamespace(namespace)),
				operator.List(ctx, &corev1.PodList{}, client.InNamespace(namespace)))
		}
		return mgr, operator.SetupWithManager(mgr)
	}
}

func TestAProgramOnTheAPIServerIsReplayedWithItsIndexesAndLiveReads(t *testing.T) {
	namespace, dir := clustertest.Namespace(t), t.TempDir()
	mgr, err := heroesProgram(namespace, "")(clustertest.Shared(t).AdminConfig(), controller.Options{Recording: &recording.Options{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(t.Context())
	group.Go("manager", mgr.Start)
	for i := range 12 {
		hero := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("hero-%d", i), Labels: map[string]string{"hero": "yes"}},
			Data:       map[string]string{"color": "red"},
		}
		if err := mgr.GetClient().Create(t.Context(), hero); err != nil {
			t.Fatal(err)
		}
		if err := mgr.GetClient().Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hero-0"}}); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := mgr.Bellerophon().Cache().Wait(ctx, cache.Settled); err != nil {
		t.Fatal(err)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	of := opened(t, dir)
	replayed := replaytest.Replay(t, of, compat.Setup(heroesProgram(namespace, "")))
	if len(replayed.Differences) > 0 {
		t.Errorf("of %d attempts, %d differ, the first one so: %v", replayed.Attempts, len(replayed.Differences), replayed.Differences[0])
	}
	sent := func(made controller.Made, part string) bool {
		return slices.ContainsFunc(made.Requests, func(request string) bool { return strings.Contains(request, part) })
	}
	attempts := 0
	for _, made := range replayed.Made {
		if made.Object.Namespace != namespace || made.Object.Name == "" { // The handler of Namespaces asks for chiefs, which no one has.
			continue
		}
		attempts++
		if !sent(made, "/serviceaccounts/"+made.Object.Name) || !sent(made, "/networkpolicies") || !sent(made, "/pods") {
			t.Errorf("the attempt for %s sent %q, and no live reads", made.Object, made.Requests)
		}
	}
	replayed = replaytest.Replay(t, of, compat.Setup(heroesProgram(namespace, "-other")))
	if attempts < 12 || len(replayed.Differences) != attempts {
		t.Errorf("%d of %d attempts for heroes differ from a version that reads other accounts, want all of at least 12", len(replayed.Differences), attempts)
	}
}

// horseKind has no namespaces, and a plural that is not the regular one.
var horseKind = schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "Hero"}

func horse(name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(horseKind)
	made.SetName(name)
	return made
}

// twins creates a second object for each one. With api, it also reads a third one from the API server.
type twins struct {
	client.Client
	api client.Reader
}

func (r *twins) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if strings.HasSuffix(request.Name, "-twin") {
		return ctrl.Result{}, nil
	}
	err := client.IgnoreAlreadyExists(r.Create(ctx, horse(request.Name+"-twin")))
	if err == nil && r.api != nil {
		err = client.IgnoreNotFound(r.api.Get(ctx, types.NamespacedName{Name: "none"}, horse("")))
	}
	return ctrl.Result{}, err
}

func twinsProgram(live bool) program {
	return func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		ours.FieldManager = "twins"
		mgr, err := compat.NewManager(config, options(), ours)
		if err != nil {
			return nil, err
		}
		made := &twins{Client: mgr.GetClient()}
		if live {
			made.api = mgr.GetAPIReader()
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("twins").For(horse("")).Complete(made)
	}
}

func twinsNative(config *rest.Config, ours controller.Options) (*controller.Manager, error) {
	manager, err := controller.NewManager(config, scheme.Scheme, ours)
	if err != nil {
		return nil, err
	}
	c, err := compat.Client(manager.Client())
	if err != nil {
		return nil, err
	}
	return manager, manager.Add("twins", compat.Reconciler(&twins{Client: c}), controller.For(horse("")))
}

func TestAKindWithAnIrregularPluralHasItsPlaceInAReplay(t *testing.T) {
	record := func(setup func(*rest.Config, controller.Options) (func(context.Context) error, error)) *recording.Recording {
		t.Helper()
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, Kinds: []sourcestest.Kind{{GroupVersionKind: horseKind, Resource: "heroes", ClusterScoped: true}}})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		run, err := setup(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &recording.Options{Dir: dir}})
		if err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(t.Context())
		group.Go("manager", run)
		for i := range 3 {
			if err := server.Create(horse(fmt.Sprintf("pegasus-%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(10 * time.Second); server.Get(horse("pegasus-2-twin")) != nil; <-time.After(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("there is no twin after 10 s")
			}
		}
		<-time.After(100 * time.Millisecond)
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		return opened(t, dir)
	}
	asProgram := starting(twinsProgram(true))
	asNative := func(config *rest.Config, ours controller.Options) (func(context.Context) error, error) {
		manager, err := twinsNative(config, ours)
		if err != nil {
			return nil, err
		}
		return manager.Run, nil
	}
	for name, replayed := range map[string]*controller.Replayed{
		"a ported program":          replaytest.Replay(t, record(asProgram), compat.Setup(twinsProgram(true))),
		"a program that is no port": replaytest.Replay(t, record(asNative), compat.Setup(twinsProgram(false))),
	} {
		created := 0
		for _, made := range replayed.Made {
			for _, request := range made.Requests {
				if strings.HasPrefix(request, "POST /apis/stable.example.com/v1/heroes?") {
					created++
				}
			}
		}
		if created < 3 || len(replayed.Differences) > 0 {
			t.Errorf("in the recording of %s, %d requests of %d attempts create heroes, with the differences %+v", name, created, replayed.Attempts, replayed.Differences)
		}
	}
}

func TestAReplayOpensNoPortAndIgnoresARecordingOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	recordInto(t, dir, starting(portedProgram(ported{})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	equal(t, opened(t, dir), compat.Setup(func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
		taken := listener.Addr().String()
		ours.Recording, ours.MetricsAddress = &recording.Options{Dir: dir}, taken
		given := ctrl.Options{HealthProbeBindAddress: taken, PprofBindAddress: taken, LeaderElection: true}
		given.Metrics.BindAddress = taken
		mgr, err := compat.NewManager(config, given, ours)
		if err != nil {
			return nil, err
		}
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("copies").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(&ported{Client: mgr.GetClient()})
	}))
	if again := opened(t, dir); len(again.Records) == 0 {
		t.Error("the replay has moved the recording away")
	}
}

func TestASetupThatCannotBeReplayedIsAnErrorThatSaysWhy(t *testing.T) {
	dir := t.TempDir()
	recordInto(t, dir, starting(portedProgram(ported{})))
	of := opened(t, dir)
	foreign := &rest.Config{Host: "http://elsewhere"}
	for want, program := range map[string]program{
		"has no function":                  nil,
		"returned no manager and no error": func(*rest.Config, controller.Options) (*compat.Manager, error) { return nil, nil },
		"with another configuration": func(_ *rest.Config, ours controller.Options) (*compat.Manager, error) {
			return portedProgram(ported{})(foreign, ours)
		},
		"has no controllers": func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
			return compat.NewManager(config, options(), ours)
		},
		"watches no kind": func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
			mgr, err := compat.NewManager(config, options(), ours)
			if err != nil {
				return nil, err
			}
			_, err = ctrlcontroller.New("nothing", mgr, ctrlcontroller.Options{Reconciler: &webReconciler{}})
			return mgr, err
		},
		"no kind is registered for the type v1.Pod": func(config *rest.Config, ours controller.Options) (*compat.Manager, error) { // The scheme lacks the kind.
			given := options()
			given.Scheme = runtime.NewScheme()
			mgr, err := compat.NewManager(config, given, ours)
			if err != nil {
				return nil, err
			}
			made, err := ctrlcontroller.New("unknown", mgr, ctrlcontroller.Options{Reconciler: &webReconciler{}})
			if err != nil {
				return nil, err
			}
			return mgr, made.Watch(source.Kind(mgr.GetCache(), client.Object(&corev1.Pod{}), handler.EventHandler(&handler.EnqueueRequestForObject{})))
		},
		"start it only in the program": func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
			mgr, err := portedProgram(ported{})(config, ours)
			return mgr, errors.Join(err, mgr.Start(t.Context()))
		},
		"the source is broken": func(config *rest.Config, ours controller.Options) (*compat.Manager, error) {
			mgr, err := compat.NewManager(config, options(), ours)
			if err != nil {
				return nil, err
			}
			broken := source.Func(func(context.Context, queue) error { return errors.New("the source is broken") })
			return mgr, ctrl.NewControllerManagedBy(mgr).Named("broken").For(&corev1.ConfigMap{}).WatchesRawSource(broken).Complete(&webReconciler{})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := controller.Replay(t.Context(), of, compat.Setup(program), synctest.Wait)
			if err == nil || !strings.HasPrefix(err.Error(), "replay: setting up the controllers: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want one that contains %q", err, want)
			}
		})
	}
	_, err := compat.Setup(portedProgram(ported{}))(foreign, controller.Options{})
	if err == nil || !strings.Contains(err.Error(), "leads to http://elsewhere; to run the program, call Start") {
		t.Errorf("outside of a replay the error is %v", err)
	}
}

package controller_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	events "github.com/bellerophon-io/bellerophon/streams"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		options controller.Options
		want    string
	}{
		{controller.Options{Window: time.Hour}, "manager: debounce: Window is 1h0m0s; allowed is 0 to 1m0s"},
		{controller.Options{Namespaces: []string{"a", "a"}}, `manager: watch: Namespaces names "a" twice; name it once`},
		{controller.Options{Namespaces: []string{""}}, "manager: watch: Namespaces[0] is empty; give a name, or leave Namespaces empty for all"},
		{controller.Options{PageSize: 10_001}, "manager: PageSize is 10001; allowed is 1 to 10000, or negative to stream lists"},
		{controller.Options{Workers: 2000}, "manager: reconcile: Workers is 2000; allowed is 1 to 1024"},
		{controller.Options{Workers: -1}, "manager: reconcile: Workers is -1; allowed is 1 to 1024"},
		{controller.Options{Timeout: time.Microsecond}, "manager: reconcile: Timeout is 1µs; allowed is 1ms to 24h"},
		{controller.Options{Grace: -time.Second}, "manager: reconcile: Grace is -1s; allowed is above 0, up to 10m"},
		{controller.Options{Backoff: operators.Backoff{First: time.Microsecond}}, "manager: backoff: First is 1µs; allowed is 1ms to Max, which is 5m0s"},
		{controller.Options{Loop: cache.LoopOptions{Factor: 0.1}}, "loop: Factor is 0.1; allowed is 1 to 1000"},
	} {
		made, err := controller.NewManager(&rest.Config{}, scheme.Scheme, test.options)
		if made != nil || err == nil || err.Error() != test.want {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
	for _, options := range []controller.Options{{}, {Window: -1}, {Window: time.Minute, Workers: 1024}} {
		if _, err := controller.NewManager(&rest.Config{}, scheme.Scheme, options); err != nil {
			t.Errorf("%+v are refused: %v", options, err)
		}
	}
}

func TestAConfigurationThatMakesNoClientIsRefused(t *testing.T) {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing.crt"}}
	if _, err := controller.NewManager(config, scheme.Scheme, controller.Options{}); err == nil || !strings.Contains(err.Error(), "making an HTTP client") {
		t.Errorf("the error is %v", err)
	}
}

func TestARegistryMayHaveTheMetricsOfTheProcessAlready(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	manager(t, silent, controller.Options{Registry: registry})
}

func TestARegistryOfAnotherManagerIsRefused(t *testing.T) {
	registry := prometheus.NewRegistry()
	manager(t, silent, controller.Options{Registry: registry})
	_, err := controller.NewManager(&rest.Config{}, scheme.Scheme, controller.Options{Registry: registry})
	if err == nil || !strings.Contains(err.Error(), "give each manager a Registry of its own") {
		t.Errorf("the error is %v", err)
	}
}

func TestAControllerThatCannotWorkIsRefused(t *testing.T) {
	keep := controller.Transform(func(events.Object) {})
	for name, test := range map[string]struct {
		add  func(*controller.Manager) error
		want string
	}{
		"without For": {
			func(m *controller.Manager) error { return m.Add("x", nothing, controller.Owns(&corev1.Pod{})) },
			`adding controller "x": it has no For, and so the *v1.Pod of Owns, or of Watches without a map function, has no owner to request; give For or a map function`,
		},
		"with a name that is taken": {
			func(m *controller.Manager) error { return m.Add("pods", nothing, controller.For(&corev1.Secret{})) },
			`adding controller "pods": the name is taken; choose another one`,
		},
		"with a selector that another controller does not have": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Secret{}), controller.Owns(&corev1.Pod{}, controller.LabelSelector("app")))
			},
			`adding controller "x": Pod is watched twice, with different options: LabelSelector is "" elsewhere and "app" here; ` +
				`give it the same LabelSelector everywhere, or run the controllers in two managers`,
		},
		"with a Transform that another controller does not have": {
			func(m *controller.Manager) error { return m.Add("x", nothing, controller.For(&corev1.Pod{}, keep)) },
			`adding controller "x": Pod is watched twice, with different options: Transform is not the same function value; ` +
				`give it the same Transform everywhere (a closure or a method value from one variable), or run the controllers in two managers`,
		},
		"with another plural": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Pod{}, controller.Plural("podes")))
			},
			`adding controller "x": Pod is watched twice, as pods of version v1 and as podes of version v1; use the same version and plural everywhere`,
		},
		"with an index that comes too late": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Secret{}), controller.Owns(&corev1.Pod{}, controller.Indexed(cache.LabelIndexer("app"))))
			},
			`adding controller "x": Indexed: Pod is watched already, without the index "app"; give it to the controller that is added first`,
		},
		"with two indexes of one name": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Secret{}, controller.Indexed(cache.LabelIndexer(cache.OwnerIndex))))
			},
			`adding controller "x": Indexed: Secret has the index "owner" already; choose another name`,
		},
		"with an index without a name": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Secret{}, controller.Indexed(cache.Indexer{})))
			},
			`adding controller "x": Indexed: an index of Secret has no name or no Values; set both`,
		},
		"with a ReconcileBeforeSync for another type": {
			func(m *controller.Manager) error {
				early := controller.ReconcileBeforeSync(func(*corev1.Pod) bool { return true }, "")
				return m.Add("x", nothing, controller.For(&corev1.Secret{}, early))
			},
			`adding controller "x": ReconcileBeforeSync has a predicate for *v1.Pod, but the kind is kept as *v1.Secret; give a predicate for that type`,
		},
		"with a ReconcileBeforeSync of what it owns": {
			func(m *controller.Manager) error {
				early := controller.ReconcileBeforeSync(func(*corev1.Secret) bool { return true }, "")
				return m.Add("x", nothing, controller.For(&corev1.Pod{}), controller.Owns(&corev1.Secret{}, early))
			},
			`adding controller "x": ReconcileBeforeSync is given for a *v1.Secret in Owns or Watches; give it in For only`,
		},
		"with a For on demand": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&corev1.Secret{}, controller.OnDemand()))
			},
			`adding controller "x": OnDemand is given for the *v1.Secret in For; give it in Owns or Watches only`,
		},
		"with two versions of a kind": {
			func(m *controller.Manager) error {
				return m.Add("x", nothing, controller.For(&autoscalingv2.HorizontalPodAutoscaler{}), controller.Owns(&autoscalingv1.HorizontalPodAutoscaler{}))
			},
			`adding controller "x": HorizontalPodAutoscaler.autoscaling is watched twice, as horizontalpodautoscalers of version v2 and as horizontalpodautoscalers of version v1; use the same version and plural everywhere`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := manager(t, silent, controller.Options{})
			add(t, m, nothing)
			if err := test.add(m); err == nil || err.Error() != test.want {
				t.Errorf("the error is\n%v, want\n%s", err, test.want)
			}
		})
	}
}

func TestATypeThatTheSchemeDoesNotKnowIsRefused(t *testing.T) {
	m, err := controller.NewManager(&rest.Config{}, runtime.NewScheme(), controller.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Add("x", nothing, controller.For(&corev1.Pod{}))
	if err == nil || !strings.Contains(err.Error(), `adding controller "x": finding the kind of *v1.Pod; add its package to the scheme`) {
		t.Errorf("the error is %v", err)
	}
}

func TestTwoControllersShareTheWatchOfAKind(t *testing.T) {
	m := manager(t, silent, controller.Options{})
	add(t, m, nothing)
	if err := m.Add("x", nothing, controller.For(&corev1.Secret{}), controller.Owns(&corev1.Pod{})); err != nil {
		t.Fatal(err)
	}
	if stores := m.Cache().Stores(); len(stores) != 2 {
		t.Errorf("there are %d stores, want one for pods and one for secrets", len(stores))
	}
}

func TestAManagerWithoutControllersDoesNotRun(t *testing.T) {
	err := manager(t, silent, controller.Options{}).Run(t.Context())
	if err == nil || err.Error() != "the manager has no controllers; call Add before Run" {
		t.Errorf("the error is %v", err)
	}
}

func TestAnAddressThatIsTakenIsToldWithItsOption(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	for option, options := range map[string]controller.Options{
		"MetricsAddress": {MetricsAddress: address},
		"HealthAddress":  {HealthAddress: address, MetricsAddress: "127.0.0.1:0"},
		"ProfileAddress": {ProfileAddress: address, HealthAddress: "127.0.0.1:0"},
	} {
		opened := ""
		options.OnListen = func(_ string, at net.Addr) { opened = at.String() }
		m := manager(t, silent, options)
		add(t, m, nothing)
		want := option + " cannot listen on " + address + "; choose another one, or port 0 for any free one: "
		if err := m.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %s...", err, want)
		}
		if opened == "" {
			continue
		}
		again, err := config.Listen(t.Context(), "tcp", opened)
		if err != nil {
			t.Errorf("the address that was opened first is still taken: %v", err)
			continue
		}
		_ = again.Close()
	}
}

package scenario

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/manykinds"
	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAllKindsAreWatchedWhenTheLastOfThemIsListedAndWatched(t *testing.T) {
	watch := func(ms int, resource string) proxy.Call {
		return proxy.Call{At: at(ms), Verb: "watch", Group: manykinds.GroupVersion.Group, Resource: resource}
	}
	refused, ended, discovery, events := watch(900, "horse02s"), watch(10, "horse00s"), watch(5, ""), watch(7, "events")
	refused.Code, ended.Code, discovery.Verb, events.Group = 500, 200, "", ""
	before := watch(-5, "horse00s")
	before.Code = 200
	record := proxy.Record{
		Calls: []proxy.Call{before, ended, refused, discovery, events},
		Open:  []proxy.Call{watch(950, "horse00s"), watch(40, "horse01s"), watch(30, "configmaps")},
		Events: []proxy.Event{
			{At: at(20), Type: "BOOKMARK", Group: manykinds.GroupVersion.Group, Resource: "configmaps"}, // of an earlier watch
			{At: at(500), Type: "ADDED", Group: manykinds.GroupVersion.Group, Resource: "configmaps"},
			{At: at(600), Type: "BOOKMARK", Group: manykinds.GroupVersion.Group, Resource: "horse01s"},
			{At: at(700), Type: "BOOKMARK", Group: manykinds.GroupVersion.Group, Resource: "configmaps"},
			{At: at(800), Type: "BOOKMARK", Group: manykinds.GroupVersion.Group, Resource: "configmaps"},
		},
	}
	for streams, want := range map[bool]float64{false: 0.04, true: 0.7} {
		measured := rundir.Measured{}
		record.Open[2].Lists = streams
		addWatches(measured, record, began)
		want := rundir.Measured{rundir.Watched: want, rundir.OpenWatches: 3, rundir.StartCalls: 6}
		if !maps.Equal(measured, want) {
			t.Errorf("with a streamed list (%t), measured %v, want %v", streams, measured, want)
		}
	}
}

// throughProxy starts a proxy before a server that answers all watches, and returns a function that opens one. It
// stays open until its body is closed.
func throughProxy(t *testing.T) (through *proxy.Proxy, watch func(path string) io.Closer) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	var err error
	through, err = proxy.New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := through.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := through.WriteKubeconfig(kubeconfig, "token"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return through, func(path string) io.Closer {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response.Body
	}
}

func TestAContenderOfManyKindsIsWatchingOnceItWatchesAllOfThem(t *testing.T) {
	through, watch := throughProxy(t)
	operator, kinds := &World{}, &World{resources: []string{"configmaps", manykinds.Plural(0), manykinds.Plural(1)}}
	if operator.isWatching(through) || kinds.isWatching(through) {
		t.Error("a contender that watches nothing is watching")
	}
	of := "/apis/" + manykinds.GroupVersion.String() + "/"
	for _, path := range []string{"/api/v1/configmaps", of + manykinds.Plural(0)} {
		defer watch(path).Close()
		if kinds.isWatching(through) {
			t.Errorf("it is watching after a watch of %s, but a kind is missing", path)
		}
	}
	defer watch(of + manykinds.Plural(1)).Close()
	if !kinds.isWatching(through) || operator.isWatching(through) || through.Connections() != 1 {
		t.Errorf("after all watches it is watching: %t; an operator without a watch of its kind: %t; connections: %d", kinds.isWatching(through), operator.isWatching(through), through.Connections())
	}
}

func TestRatesAreOfASecondAndOfAMinute(t *testing.T) {
	through, watch := throughProxy(t)
	win := &window{world: &World{Proxy: through, process: itself{}}, from: time.Now().Add(-30 * time.Second)}
	for range 3 {
		defer watch("/api/v1/configmaps").Close() // A watch is recorded when it arrives.
	}
	measured := rundir.Measured{}
	if err := win.addRates(measured, rundir.IdleCPU, rundir.IdleCalls); err != nil {
		t.Fatal(err)
	}
	used, err := UsageOf(itself{}.PID())
	if err != nil {
		t.Fatal(err)
	}
	if calls, cpu := measured[rundir.IdleCalls], measured[rundir.IdleCPU]; calls < 5 || calls > 6 || cpu <= 0 || cpu > used.CPU.Seconds()/30 {
		t.Errorf("three requests in 30 s are %v a minute, and %v of CPU time are %v a second", calls, used.CPU, cpu)
	}
}

func TestAConfigMapOfTheKindsHasItsOwnerAndItsColour(t *testing.T) {
	whole := func() *corev1.ConfigMap {
		owner := &horse{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, manykinds.GroupVersion.WithKind("Horse00"))}},
			Data:       map[string]string{"colour": colour},
		}
	}
	if !isConfigOfKinds(whole()) {
		t.Error("a whole ConfigMap is wrong")
	}
	for text, spoil := range map[string]func(*corev1.ConfigMap){
		"no owner":           func(c *corev1.ConfigMap) { c.OwnerReferences = nil },
		"no controller":      func(c *corev1.ConfigMap) { c.OwnerReferences[0].Controller = nil },
		"another name":       func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = "b" },
		"another group":      func(c *corev1.ConfigMap) { c.OwnerReferences[0].APIVersion = "v1" },
		"no block":           func(c *corev1.ConfigMap) { c.OwnerReferences[0].BlockOwnerDeletion = nil },
		"another colour":     func(c *corev1.ConfigMap) { c.Data["colour"] = "grey" },
		"no data at all":     func(c *corev1.ConfigMap) { c.Data = nil },
		"no group, but more": func(c *corev1.ConfigMap) { c.OwnerReferences[0].APIVersion = "a/b/c" },
	} {
		config := whole()
		if spoil(config); isConfigOfKinds(config) {
			t.Errorf("a ConfigMap with %s is right", text)
		}
	}
}

func TestADefinitionIsServedOnceItIsEstablished(t *testing.T) {
	definition := definitionOf(7)
	if definition.Name != "horse07s."+manykinds.GroupVersion.Group || definition.Spec.Names.Kind != "Horse07" {
		t.Errorf("the definition is %+v", definition)
	}
	for status, want := range map[apiextensionsv1.ConditionStatus]bool{"": false, apiextensionsv1.ConditionFalse: false, apiextensionsv1.ConditionTrue: true} {
		definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, {Type: apiextensionsv1.Established, Status: status},
		}
		if got := isEstablished(definition); got != want {
			t.Errorf("with the status %q it is established: %t", status, got)
		}
	}
}

func TestAKindIsFinishedWhenTheStatusHasItsGeneration(t *testing.T) {
	j := &Judge{finished: newBoard()}
	one := &horse{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}}
	j.finished.want(nameOf(one), 1)
	j.horse(one, at(0))
	if _, is := j.finished.at(nameOf(one)); is {
		t.Error("an object without a status is finished")
	}
	one.Status.ObservedGeneration = 1
	j.horse(one, at(5))
	if reached, is := j.finished.at(nameOf(one)); !is || reached != at(5) {
		t.Errorf("it is finished: %t, at %v", is, reached.Sub(began))
	}
	one.Generation = 2
	j.horse(one, at(9))
	j.finished.want(nameOf(one), 2)
	if _, is := j.finished.at(nameOf(one)); is {
		t.Error("a status of an older generation is finished")
	}
}

func TestRequestsAboutEventsAndLeasesDoNotCount(t *testing.T) {
	record := proxy.Record{
		Calls: []proxy.Call{
			write(0, "configmaps", "a"), write(999, "configmaps", "a"), write(1000, "configmaps", "late"), write(-1, "configmaps", "early"), write(5, "events", "a"),
			{At: at(6), Verb: "update", Group: "coordination.k8s.io", Resource: "leases"}, {At: at(7), Name: "/apis"},
		},
		Open: []proxy.Call{{At: at(8), Verb: "watch", Resource: "configmaps"}},
	}
	if n := requestsIn(record, at(0), at(0).Add(time.Second)); n != 4 {
		t.Errorf("%d requests, want two writes, a discovery and a watch", n)
	}
}

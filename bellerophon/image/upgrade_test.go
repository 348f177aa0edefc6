package image_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	herov1alpha0 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1alpha0"
	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/bellerophon/migrate"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// upgraded is the namespace of the operator that is upgraded, and of its objects.
const upgraded = "upgraded"

// upgradeWorld is a real node with an operator, and with clients of all that it serves.
type upgradeWorld struct {
	*dayTwo
	cluster *localcluster.Cluster
	simple  dynamic.ResourceInterface // objects of BellerophonSimple
	old     dynamic.ResourceInterface // heroes in their first version

	mu       sync.Mutex
	delays   []time.Duration // of requests to the store
	refused  []string        // requests that failed
	requests int             // to the API server
}

func newUpgradeWorld(t *testing.T, audit string) *upgradeWorld {
	t.Helper()
	clustertest.WithRealNode(t) // It skips the test where none can run.
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{
		Nodes: localcluster.RealNode, AuditLog: audit, AuditUsers: []string{"system:serviceaccount:" + upgraded + ":bellerophon"}, AuditContent: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() }) // It does nothing after the test's own.
	kubectl(t, cluster, "default", "create", "namespace", upgraded)
	kubectl(t, cluster, upgraded, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	transport, err := rest.TransportFor(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	clients, err := dynamic.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	day := &dayTwo{realHero: newRealHeroIn(t, cluster, upgraded), transport: transport, address: cluster.AdminConfig().Host, ready: map[types.UID]bool{}}
	return &upgradeWorld{
		dayTwo: day, cluster: cluster,
		simple: clients.Resource(v1.GroupVersion.WithResource("sheroes")).Namespace(upgraded),
		old:    clients.Resource(herov1alpha0.GroupVersion.WithResource("heroes")).Namespace(upgraded),
	}
}

// makeSimple makes an object of BellerophonSimple.
func (w *upgradeWorld) makeSimple(ctx context.Context, name string, replicas int64) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	object.SetGroupVersionKind(v1.GroupVersion.WithKind("BellerophonSimple"))
	object.SetName(name)
	_, err := w.simple.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// tally counts a request to the API server that must not fail.
func (w *upgradeWorld) tally(ctx context.Context, what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests++; err != nil && ctx.Err() == nil {
		w.refused = append(w.refused, fmt.Sprintf("%s: %v", what, err))
	}
}

// change makes, changes and deletes objects without servers, and reads heroes in their first version, until ctx ends.
// The webhooks of the operator review the new objects, and convert the heroes.
func (w *upgradeWorld) change(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		_, err := w.simple.Patch(ctx, "busy", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"winged_horse_name":"horse-%d"}}`, number), metav1.PatchOptions{})
		w.tally(ctx, "changing an object", err)
		_, err = w.old.Get(ctx, w.name, metav1.GetOptions{})
		w.tally(ctx, "reading a hero in its first version", err)
		name := fmt.Sprint("made-", number)
		w.tally(ctx, "making an object", w.makeSimple(ctx, name, 0))
		w.tally(ctx, "deleting an object", w.simple.Delete(ctx, name, metav1.DeleteOptions{}))
	}
}

// load runs a function while clients use the store and change objects.
func (w *upgradeWorld) load(run func()) {
	w.Helper()
	group := lifecycle.New(w.Context())
	group.Go("changes", w.change)
	w.clients(rand.New(rand.NewPCG(1, 1)), func(ctx context.Context, _ int, of *rand.Rand) error {
		return w.use(ctx, of, 50*time.Millisecond, func(took time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.delays = append(w.delays, took)
		})
	}, run)
	group.Stop()
	if err := group.Wait(); err != nil {
		w.Fatal(err)
	}
}

// servers returns what would change if a server was restarted or its template changed: the pods with their restarts, the
// generations of what makes them, and the versions of what no controller of Kubernetes writes.
func (w *upgradeWorld) servers() (found []string) {
	w.Helper()
	steady := "app.kubernetes.io/name!=bellerophon-operator"
	for _, each := range []struct{ kinds, of string }{
		{"pods", `{.metadata.uid}{" "}{.status.containerStatuses[*].restartCount}{" "}{.status.startTime}`},
		{"statefulsets,poddisruptionbudgets,cronjobs", `{.metadata.uid}{" "}{.metadata.generation}`},
		{"services,configmaps", `{.metadata.uid}{" "}{.metadata.resourceVersion}`},
	} {
		said := kubectl(w.T, w.cluster, upgraded, "get", each.kinds, "--selector="+steady, "--output=jsonpath={range .items[*]}{.kind} {.metadata.name} "+each.of+`{"\n"}{end}`)
		for line := range strings.Lines(said) {
			if name := strings.Fields(line); len(name) > 1 && !strings.HasPrefix(name[1], "made-") && !strings.HasPrefix(name[1], "after-") && name[1] != "busy" && name[1] != "kube-root-ca.crt" && name[1] != "bellerophon-webhooks" {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(found)
	return found
}

// migrate rewrites the objects of both kinds, and checks in which version they are stored afterwards.
func (w *upgradeWorld) migrate(heroes, simple string) {
	w.Helper()
	want := map[string]string{"heroes.stable.bellerophon.io": heroes, "sheroes.stable.simple-bellerophon.io": simple}
	if err := migrate.Run(w.Context(), w.cluster.AdminConfig(), migrate.Options{}, func(kind migrate.Kind) { w.Log("rewritten", kind) }); err != nil {
		w.Fatal(err)
	}
	for name, version := range want {
		wantField(w.T, w.cluster, upgraded, "crd/"+name, ".status.storedVersions", `["`+version+`"]`)
	}
}

// converges checks that the operator works: an object of BellerophonSimple gets its servers.
func (w *upgradeWorld) converges(name string) {
	w.Helper()
	converge(w.T, w.cluster.AdminConfig(), upgraded, name)
	w.kubectl("delete", "shero", name, "--timeout=60s")
}

// needless returns the writes of the operator that changed nothing. Each write that changes something gets a version above
// all versions that were answered before it was asked for.
func needless(t *testing.T, audit string) (found []string, writes int) {
	t.Helper()
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		Verb, RequestURI                         string
		RequestReceivedTimestamp, StageTimestamp time.Time
		ResponseStatus                           struct{ Code int }
		ResponseObject                           struct {
			Metadata struct{ ResourceVersion string }
		}
		version uint64
	}
	var events []event
	for line := range bytes.Lines(log) {
		var read event
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains([]string{"create", "update", "patch"}, read.Verb) || read.ResponseStatus.Code >= 300 {
			continue
		}
		// Reviews are stored nowhere.
		if read.version, err = strconv.ParseUint(read.ResponseObject.Metadata.ResourceVersion, 10, 64); err != nil {
			continue
		}
		events = append(events, read)
	}
	for _, each := range events {
		for _, earlier := range events {
			if earlier.StageTimestamp.Before(each.RequestReceivedTimestamp) && earlier.version >= each.version {
				found = append(found, each.Verb+" "+each.RequestURI)
				break
			}
		}
	}
	return found, len(events)
}

func TestAnUpgradeAndARollbackUnderLoadRestartNoServerAndWriteNothingInVain(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	w := newUpgradeWorld(t, audit)
	older := image.Operator
	older.Image = olderImage
	load(t, w.cluster, older, olderOperator(t))
	load(t, w.cluster, image.Operator, operator(t))
	load(t, w.cluster, image.Server, serverOf(t))

	release := []string{"bellerophon", "--namespace=" + upgraded, "--set=image.pullPolicy=Never", "--set=webhooks.enabled=true", "--set=heroes.enabled=true", "--wait", "--timeout=2m"}
	before := olderChart(t)
	helm(t, w.cluster.Kubeconfig(), append([]string{"install", release[0], before}, release[1:]...)...)
	w.apply(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":"example"},"spec":{"replicas":3,"paused":false,"storage":{"retention":"Delete"}}}`)
	w.until("three members are ready", isRunning(3))
	w.put("used", "value")
	converge(t, w.cluster.AdminConfig(), upgraded, "steady")
	if err := w.makeSimple(t.Context(), "busy", 0); err != nil {
		t.Fatal(err)
	}
	heroes, simple := olderStores()
	w.migrate(heroes, simple)
	servers := w.servers()
	w.Logf("what must stay:\n%s", strings.Join(servers, "\n"))
	same := func(when string) {
		t.Helper()
		if now := w.servers(); !slices.Equal(now, servers) {
			t.Errorf("%s, there are\n%s\nwant\n%s", when, strings.Join(now, "\n"), strings.Join(servers, "\n"))
		}
	}

	w.load(func() {
		// The guide says so: first the definitions, then the release, then the objects.
		w.kubectl("apply", "--server-side", "--force-conflicts", "--filename="+filepath.Join(chart("bellerophon-operator"), "crds"))
		helm(t, w.cluster.Kubeconfig(), append([]string{"upgrade", release[0], chart("bellerophon-operator")}, release[1:]...)...)
		wantField(t, w.cluster, upgraded, "deployment/bellerophon", ".spec.template.spec.containers[0].image", "bellerophon-io/bellerophon:v1")
		w.migrate("v1", "v1")
		w.converges("after-the-upgrade")
		w.until("three members are ready", isRunning(3))
		same("after the upgrade")

		helm(t, w.cluster.Kubeconfig(), "rollback", "bellerophon", "--namespace="+upgraded, "--wait", "--timeout=2m")
		wantField(t, w.cluster, upgraded, "deployment/bellerophon", ".spec.template.spec.containers[0].image", olderImage)
		w.migrate(heroes, "v1") // Helm leaves the definition of BellerophonSimple as it is.
		w.converges("after-the-rollback")
		w.until("three members are ready", isRunning(3))
		same("after the rollback")
	})
	w.want("used", "value")

	if len(w.refused) > 0 || w.requests < 500 {
		t.Errorf("of %d requests to the API server, %d failed: %s", w.requests, len(w.refused), strings.Join(w.refused[:min(10, len(w.refused))], "\n"))
	}
	slices.Sort(w.delays)
	p99, longest := w.delays[len(w.delays)*99/100], w.delays[len(w.delays)-1]
	t.Logf("%d requests to the store took %v at p99, and at most %v; %d requests to the API server", len(w.delays), p99, longest, w.requests)
	if p99 > 2*time.Second {
		t.Errorf("requests to the store took %v at p99", p99)
	}
	for _, pod := range strings.Fields(kubectl(t, w.cluster, upgraded, "get", "pods", "--selector="+operatorPods, "--output=jsonpath={.items[*].status.containerStatuses[*].restartCount}")) {
		if pod != "0" {
			t.Errorf("a pod of the operator was restarted %s times", pod)
		}
	}
	if err := w.cluster.Stop(); err != nil {
		t.Error(err)
	}
	if found, writes := needless(t, audit); *olderFolder != "" { // Some may be of the older program.
		t.Logf("of %d writes of both operators, %d changed nothing: %v", writes, len(found), found)
	} else if len(found) > 0 || writes < 100 {
		t.Errorf("of %d writes of the operator, %d changed nothing:\n%s", writes, len(found), strings.Join(found, "\n"))
	}
}

package simple_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The opponent changes the ConfigMap of an object as often as the operator repairs it.
func TestAFightOverAChildIsAConditionOfTheObject(t *testing.T) {
	w := newWorld(t)
	config := w.operatorConfig()
	dir := t.TempDir()
	w.operator = w.startOperatorWith(config, func(options *controller.Options) {
		options.MetricsAddress, options.Recording = "127.0.0.1:0", &recording.Options{Dir: dir}
	})
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	configs := w.core.CoreV1().ConfigMaps(w.namespace)
	watch := must(configs.Watch(w.ctx, metav1.ListOptions{FieldSelector: "metadata.name=pegasus"}))(t)
	opponent := lifecycle.New(w.ctx)
	var patches atomic.Int64
	opponent.Go("opponent", func(ctx context.Context) error {
		for {
			patches.Add(1)
			if _, err := configs.Patch(ctx, "pegasus", apitypes.MergePatchType, []byte(`{"data":{"winged_horse_name":"hijack"}}`), metav1.PatchOptions{FieldManager: "opponent"}); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-watch.ResultChan():
			case <-ctx.Done():
				return nil
			}
		}
	})
	hero := w.awaitCondition("pegasus", controller.ConditionStalled, func(_ *v1.BellerophonSimple, found *metav1.Condition) bool { return found.Reason == "Fight" })
	// Five rounds are enough. A round is up to three patches, one for each event and some that change nothing.
	if made := patches.Load(); made > 40 {
		t.Errorf("the fight was found after %d patches of the opponent", made)
	}
	if len(hero.Status.Conditions) != 4 {
		t.Errorf("the conditions are %v", hero.Status.Conditions)
	}
	watch.Stop()
	opponent.Stop()
	if err := opponent.Wait(); err != nil {
		t.Error(err)
	}
	w.operator.stop()
	// A replay has no history, and gets the fight from the recording.
	replayed := replaytest.Replay(t, must(recording.Open(dir))(t), func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		manager, err := controller.NewManager(config, types(), options)
		if err != nil {
			return nil, err
		}
		return manager, simple.AddTo(manager, owned.KindsOf(simple.Fields()))
	})
	if len(replayed.Differences) > 0 || replayed.Attempts < 10 {
		t.Errorf("of %d attempts in the replay, these differ: %v", replayed.Attempts, replayed.Differences)
	}
}

// The cache keeps one hash of all owned fields, which each of these changes gives another value.
func TestAUserWhoChangesOneFieldAfterTheOtherIsNoOpponent(t *testing.T) {
	w := newWorld(t)
	config := w.operatorConfig()
	w.operator = w.startOperatorWith(config, func(options *controller.Options) { options.MetricsAddress = "127.0.0.1:0" })
	w.create(w.hero("pegasus", 1))
	w.awaitReady("pegasus", 1)
	configs := w.core.CoreV1().ConfigMaps(w.namespace)
	own := must(configs.Get(w.ctx, "pegasus", metav1.GetOptions{}))(t).Data
	for key := range own {
		for _, value := range []string{"null", `"theirs"`, `""`} {
			patch := fmt.Sprintf(`{"data":{%q:%s}}`, key, value)
			must(configs.Patch(w.ctx, "pegasus", apitypes.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "user"}))(t)
			w.await(configMaps, "pegasus", "repaired", func(found *unstructured.Unstructured) bool {
				data, _, err := unstructured.NestedStringMap(found.Object, "data")
				return err == nil && maps.Equal(data, own)
			})
		}
	}
	w.change("pegasus", `{"spec":{"replicas":2}}`)
	if hero := w.awaitReady("pegasus", 2); len(own) != 3 || len(hero.Status.Conditions) != 3 {
		t.Errorf("after changes of %v, the conditions are %v", own, hero.Status.Conditions)
	}
}

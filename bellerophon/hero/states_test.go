package hero

import (
	"flag"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/faults/states"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	stateWalks   = flag.Int("state-walks", 8, "how many walks through the states of the spec are made; 0 is all of the plan")
	stateJournal = flag.String("state-journal", "", "file that lists finished walks, so that a run goes on where the last one ended")
	stateSlice   = flag.Duration("state-slice", 0, "time after which no further walk starts; it needs -state-journal")
	stateOnly    = flag.String("state-only", "", "pattern of the walks that are made, as they are in the log")
)

// TestTheStateSpaceOfTheSpecHoldsNoSurprise walks through the states of the spec, with real members. Package
// states says how it judges.
func TestTheStateSpaceOfTheSpecHoldsNoSurprise(t *testing.T) {
	chosen, err := regexp.Compile(*stateOnly)
	if err != nil {
		t.Fatalf("-state-only: %v", err)
	}
	w := newWorldIn(t, "")
	letVolumesGrow(t, w.core)
	definition, err := states.Definition(t.Context(), w.config, heroes.GroupResource().String())
	if err != nil {
		t.Fatal(err)
	}
	report, err := states.Explore(t.Context(), states.Subject{
		Config: w.config, Definition: definition,
		// Volumes outlive their hero if the spec says so.
		Children: []schema.GroupVersionResource{
			sets, cronJobs, jobs, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
			corev1.SchemeGroupVersion.WithResource("configmaps"), corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("pods"),
		},
		Base: map[string]any{"spec": map[string]any{"replicas": 1, "storage": map[string]any{"retention": "Delete"}}},
		Values: map[string][]any{
			"spec.replicas": {2, 3, 0},
			// The node cannot pull the second one.
			"spec.image":             {"bellerophon-io/bellerophon-server:v2", "registry.invalid/server:v1"},
			"spec.config":            {map[string]any{"log-level": "debug"}, map[string]any{"quota": "64Mi"}},
			"spec.storage.size":      {"2Gi"},
			"spec.storage.className": {"kwok-volume", "missing"},
			"spec.tls":               {map[string]any{"secretName": "missing"}},
			"spec.restore":           {map[string]any{"volumeClaimName": "missing"}, map[string]any{"volumeClaimName": "missing", "file": "a/b"}},
			"spec.backup.schedule":   {"0 3 * * *", "every day"},
			"spec.affinity": {map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
				"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "no-node-has-it", "operator": "Exists"}}}},
			}}}},
			"spec.resources":   {map[string]any{"requests": map[string]any{"cpu": "10m"}}, map[string]any{"requests": map[string]any{"memory": "10Ti"}}},
			"spec.tolerations": {[]any{map[string]any{"key": "dedicated", "operator": "Exists"}}, []any{map[string]any{"operator": "Sometimes"}}},
		},
		// A paused hero stays as it was, so it is not as one that was paused from the start.
		Opaque: []string{"spec.affinity", "spec.paused", "spec.resources", "spec.restore", "spec.tls", "spec.tolerations"},
		Ignore: []string{
			"Pod.status",
			// The StatefulSet does not count them if it does not replace pods itself.
			"StatefulSet.status.currentReplicas", "StatefulSet.status.currentRevision",
			// Which member leads, and what a volume has, follows from the way.
			"Bellerophon.status.leader", "Bellerophon.status.members", "Bellerophon.status.cluster",
		},
		IsHeavy: func(field string, value any) bool {
			number, is := value.(int64)
			return is && field == "spec.replicas" && number > 3
		},
	}, states.Options{
		Walks: *stateWalks, Workers: 4, Journal: *stateJournal, Slice: *stateSlice, Select: chosen.MatchString,
		Patience: 90 * time.Second, Quiet: 1500 * time.Millisecond,
		Log: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d fields, %d values, %d refused, %d of %d walks of %d", report.Fields, report.Values, report.Refused, report.Walks, report.Planned, report.All)
	for _, problem := range report.Problems {
		t.Error(problem)
	}
	if err := report.WriteGoals(os.Stdout, ""); err != nil {
		t.Error(err)
	}
}

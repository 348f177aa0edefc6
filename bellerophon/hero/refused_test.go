package hero

import "testing"

// TestASpecThatOnlyAChildRefusesSaysSoAndBlocksNothingElse has a schedule and an affinity that the definition of the kind lets pass.
func TestASpecThatOnlyAChildRefusesSaysSoAndBlocksNothingElse(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups", "schedule": "0 9-5 * * *"}})
	w.degraded("SpecRefused", "the API server refuses the CronJob bellerophon-backup")
	w.put("horse", "pegasus") // The cluster is made nevertheless.
	w.change(`{"spec":{"backup":{"schedule":"0 5-9 * * *"}}}`)
	w.ready()

	w.change(`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Near"}]}]}}}}}`)
	w.degraded("SpecRefused", `"Near": not a valid selector operator`)
	w.change(`{"spec":{"affinity":null}}`)
	w.ready()
	w.wantHorse()
}

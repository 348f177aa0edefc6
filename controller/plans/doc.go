// Package plans runs procedures on an object: to deploy it, to update it, to back it up.
//
// A [Plan] has phases, and a phase has steps. Both run one after the other, or in parallel. A step applies
// a set of dependents and waits until they are ready, or deletes them, or calls a function:
//
//	deploy := plans.NewPlan("deploy",
//		plans.NewPhase("storage", plans.Apply("volumes", volumes)),
//		plans.NewPhase("servers", plans.Apply("config", config), plans.Apply("servers", servers)).Parallel(),
//		plans.NewPhase("schema", plans.Run("migrate", migrate)))
//	backup := plans.NewPlan("backup", plans.NewPhase("backup", plans.Run("dump", dump)))
//	runner, err := plans.NewRunner(func(hero *v1.Hero) *plans.Status { return &hero.Status.Plan }, deploy, backup)
//
// The reconciler calls [Runner.Reconcile]. The runner keeps the progress in the status of the object, and
// nowhere else. It writes the status only when it changed.
//
// # Which plan runs
//
//   - The first plan runs for a new object.
//   - A plan with [Plan.OnChange] runs when its inputs changed. If no plan has it, the first plan runs
//     again when the generation changed.
//   - The annotation bellerophon.io/run-plan requests a plan: see [RunAnnotation].
//
// One plan runs at a time. A change of its inputs starts it anew, or waits with [Plan.FinishFirst]. The
// annotation bellerophon.io/cancel-plan cancels it: see [CancelAnnotation].
//
// # What a crash can do
//
// A step begins after the API server has stored that it begins, and the steps before it are stored as
// complete. So if the process stops at any point, another one goes on from there, and only steps that were
// in progress run again. A function of [Run] must therefore be idempotent.
//
// A step that fails is retried after a backoff, unless its error is an [operators.Terminal] one. That ends
// the plan, until its inputs change or a plan is requested.
package plans

package plans_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/internal/crashtest"
	"github.com/bellerophon-io/bellerophon/controller/plans"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stablePlans declares two plans of a horse. The first one, deploy, creates a Secret and then migrates a
// database. The other one is a backup, which a user requests.
func stablePlans(migrate, dump func(ctx context.Context, horse *Horse, execution plans.Execution) (plans.Progress, error)) (*plans.Runner[*Horse], error) {
	password := dependents.One("password", func(_ context.Context, horse *Horse, _ *dependents.View) (*corev1.Secret, error) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: horse.Name}}, nil
	})
	secrets, err := dependents.NewSet("secrets", dependents.Options{}, password)
	if err != nil {
		return nil, err
	}
	return plans.NewRunner(func(horse *Horse) *plans.Status { return &horse.Status.Plan },
		plans.NewPlan("deploy",
			plans.NewPhase("prepare", plans.Apply("secrets", secrets)),
			plans.NewPhase("database", plans.Run("migrate", migrate))),
		plans.NewPlan("backup",
			plans.NewPhase("backup", plans.Run("dump", dump))))
}

// A new horse is deployed, and an annotation requests a backup. The status of the horse shows the progress.
func Example() {
	attempts := 0
	runner, err := stablePlans(func(context.Context, *Horse, plans.Execution) (plans.Progress, error) {
		if attempts++; attempts == 1 {
			return plans.Progress{}, errors.New("the database starts up") // It is retried after a backoff.
		}
		return plans.Progress{Done: true}, nil
	}, func(context.Context, *Horse, plans.Execution) (plans.Progress, error) {
		return plans.Progress{Done: true}, nil
	})
	if err != nil {
		panic(err)
	}
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme()}) // Your cluster.
	_, config := crashtest.New(server.Config())
	manager, err2 := controller.NewManager(config, scheme(), controller.Options{Logger: slog.New(slog.DiscardHandler), OnError: func(error) {}})
	horse := &Horse{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pegasus"}}
	if err := errors.Join(err, err2, server.Create(horse)); err != nil {
		panic(err)
	}

	states := make(chan string, 100)
	client := manager.Client()
	reconcile := func(ctx context.Context, horse *Horse) (controller.Result, error) {
		horse, result, err := runner.Reconcile(ctx, client, horse)
		states <- summary(&horse.Status.Plan)
		return result, err
	}
	err = manager.Add("horses", controller.Typed(client, controller.TypedReconciler[*Horse]{Reconcile: reconcile}),
		append(runner.Owns(), controller.For(&Horse{}))...)
	if err != nil {
		panic(err)
	}
	running := lifecycle.New(context.Background())
	running.Go("manager", manager.Run)
	last := ""
	showUntil := func(final string) {
		for last != final {
			if state := <-states; state != last {
				last = state
				fmt.Println(state)
			}
		}
	}
	showUntil("deploy=COMPLETE secrets=COMPLETE migrate=COMPLETE")
	horse = &Horse{ObjectMeta: horse.ObjectMeta}
	err = server.Get(horse)
	metav1.SetMetaDataAnnotation(&horse.ObjectMeta, plans.RunAnnotation, "backup/2026-11-24")
	err = errors.Join(err, server.Update(horse))
	showUntil("backup=COMPLETE dump=COMPLETE")
	running.Stop()
	fmt.Println(errors.Join(err, running.Wait()))
	// Output:
	// deploy=ERROR secrets=COMPLETE migrate=ERROR
	// deploy=COMPLETE secrets=COMPLETE migrate=COMPLETE
	// backup=COMPLETE dump=COMPLETE
	// <nil>
}

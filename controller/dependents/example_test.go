package dependents_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/dependents"
	"github.com/bellerophon-io/bellerophon/controller/internal/crashtest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// exampleManager returns a manager over an API server in memory, where the ConfigMap default/shop is. A
// program of your own takes the configuration of its cluster instead.
func exampleManager() (*controller.Manager, *sourcestest.Server) {
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	_, config := crashtest.New(server.Config())
	manager, err2 := controller.NewManager(config, scheme.Scheme, controller.Options{Logger: slog.New(slog.DiscardHandler)})
	shop := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}, Data: map[string]string{"sells": "oats"}}
	if err := errors.Join(err, err2, server.Create(shop)); err != nil {
		panic(err)
	}
	return manager, server
}

// Price is a state outside of the cluster: what a feed reports.
type Price struct {
	Good  string
	Cents int
}

// A shop, which is a ConfigMap here, has two children: its credentials, and an offer after them. The offer
// includes a price from a feed outside of the cluster. Each new price updates it, and nothing polls.
func Example() {
	feed := make(chan Price) // Of a message bus, for example; streams.From takes an RxGo observable.
	prices := dependents.NewExternal("prices", sources.Channel(feed), func(price Price) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: "shop"}} // The shops that sell price.Good.
	})

	credentials := dependents.One("credentials", func(_ context.Context, shop *corev1.ConfigMap, _ *dependents.View) (*corev1.Secret, error) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: shop.Name}, Data: map[string][]byte{"user": []byte("trader")}}, nil
	})
	offer := dependents.One("offer", func(_ context.Context, shop *corev1.ConfigMap, view *dependents.View) (*corev1.Secret, error) {
		price, err := prices.Of(shop)
		if err != nil {
			return nil, err // There is no price yet: the offer stays as it is.
		}
		login, _ := credentials.Get(view)
		text := fmt.Sprintf("%s sells %s for %d cents", login.Data["user"], price.Good, price.Cents)
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "offer"}, Data: map[string][]byte{"text": []byte(text)}}, nil
	}).After(credentials).When(func(shop *corev1.ConfigMap, _ *dependents.View) bool { return shop.Data["sells"] != "" })
	set, err := dependents.NewSet("shop", dependents.Options{}, credentials, offer)
	if err != nil {
		panic(err)
	}

	manager, server := exampleManager()
	client := manager.Client()
	outcomes := make(chan dependents.Outcome, 100)
	err = manager.Add("shops", controller.Typed(client, controller.TypedReconciler[*corev1.ConfigMap]{
		Reconcile: func(ctx context.Context, shop *corev1.ConfigMap) (controller.Result, error) {
			outcome := set.Reconcile(ctx, client, shop) // outcome.Condition("Ready") is one for the status.
			outcomes <- outcome
			return outcome.Result()
		},
		Gone: func(_ context.Context, name types.NamespacedName) (controller.Result, error) {
			prices.Forget(name)
			return controller.Result{}, nil
		},
	}), append(set.Owns(), controller.For(&corev1.ConfigMap{}), prices.Requests())...)
	if err != nil {
		panic(err)
	}
	running := lifecycle.New(context.Background())
	running.Go("manager", manager.Run)

	text := func() string {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "offer"}}
		_ = server.Get(made) // There may be none.
		return string(made.Data["text"])
	}
	fmt.Println((<-outcomes).Message())
	for _, cents := range []int{120, 135} {
		feed <- Price{"oats", cents}
		for want := fmt.Sprintf("trader sells oats for %d cents", cents); text() != want; {
			<-outcomes
		}
		fmt.Println(text())
	}
	running.Stop()
	fmt.Println(running.Wait())
	// Output:
	// offer waits: prices has no state for it yet
	// trader sells oats for 120 cents
	// trader sells oats for 135 cents
	// <nil>
}

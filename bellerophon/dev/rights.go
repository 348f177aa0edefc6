package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// rule is a resource with the verbs that a part needs.
type rule struct {
	group, resource, subresource string
	verbs                        []string
}

var (
	kept    = []string{"get", "list", "watch", "create", "patch", "delete"}
	watched = []string{"get", "list", "watch"}

	clientRules     = []rule{{resource: "configmaps", verbs: kept}}
	controllerRules = []rule{
		{resource: "configmaps", verbs: kept},
		{group: "apps", resource: "deployments", verbs: kept},
		{resource: "services", verbs: kept},
		{resource: "persistentvolumeclaims", verbs: kept},
		{resource: "pods", verbs: watched},
		{resource: "pods", subresource: "exec", verbs: []string{"get", "create"}},
		{resource: "pods", subresource: "portforward", verbs: []string{"get", "create"}},
	}
)

// ErrRights means that the user lacks rights in the namespace.
var ErrRights = errors.New("missing rights")

// checkRights fails with an ErrRights that lists all rights that the user lacks. It asks the API server, so that a right
// that is missing shows at once, and not when it is needed.
func checkRights(ctx context.Context, client kubernetes.Interface, namespace string, part Part) error {
	rules := controllerRules
	if part == ClientPart {
		rules = clientRules
	}
	group := lifecycle.New(ctx)
	var mu sync.Mutex
	var missing []string
	for _, rule := range rules {
		group.Go("rights for "+rule.resource, func(ctx context.Context) error {
			for _, verb := range rule.verbs {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: rule.group, Resource: rule.resource, Subresource: rule.subresource,
					},
				}}
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					return fmt.Errorf("ask for the rights in the namespace %s: %w", namespace, err)
				}
				if answer.Status.Allowed {
					continue
				}
				name := rule.resource
				if rule.group != "" {
					name += "." + rule.group
				}
				if rule.subresource != "" {
					name += "/" + rule.subresource
				}
				mu.Lock()
				missing = append(missing, verb+" "+name)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("%w in the namespace %s: %s; ask its administrator for the Role in docs/dev.md, or name another namespace with --namespace", ErrRights, namespace, strings.Join(missing, ", "))
}

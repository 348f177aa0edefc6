package localcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	nodeName = "bellerophon"

	// kwokAnnotation marks the nodes that kwok manages.
	kwokAnnotation = "kwok.x-k8s.io/node"
	kwokFake       = "fake"

	// storageClass is the class that kwok's volume stages serve.
	storageClass = "kwok-volume"
)

// populate creates the objects of a new cluster: the node unless kubelet creates it, the default
// storage class, and the permissions of the node's programs. None of them exists yet, so a plain
// create is enough.
func populate(ctx context.Context, client kubernetes.Interface, nodes Nodes) error {
	if nodes == RealNode {
		return populateReal(ctx, client)
	}
	if err := allowKwok(ctx, client); err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        nodeName,
			Annotations: map[string]string{kwokAnnotation: kwokFake},
			Labels: map[string]string{
				corev1.LabelHostname:   nodeName,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity(), Allocatable: capacity()},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the node: %w", err)
	}
	return createClass(ctx, client, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: storageClass}, Provisioner: "kwok.x-k8s.io/volume"})
}

// createClass creates a storage class as the default one.
func createClass(ctx context.Context, client kubernetes.Interface, class *storagev1.StorageClass) error {
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the storage class: %w", err)
	}
	return nil
}

func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1k"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("10k"),
	}
}

// allowKwok grants kwok the permissions that its stages need, and no others.
func allowKwok(ctx context.Context, client kubernetes.Interface) error {
	return allow(ctx, client, kwokUser,
		rule("", []string{"nodes"}, "get", "list", "watch"),
		rule("", []string{"pods"}, "get", "list", "watch", "patch", "delete"),
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "patch", "delete"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "patch"),
		rule("", []string{"nodes/status", "pods/status", "persistentvolumes/status", "persistentvolumeclaims/status"}, "patch"),
		rule("", []string{"events"}, "create", "patch"),
		rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "update", "patch"),
	)
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// allow creates a role of a user's name, and binds it to the user.
func allow(ctx context.Context, client kubernetes.Interface, user string, rules ...rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the role %s: %w", user, err)
	}
	return bind(ctx, client, user, user)
}

// bind grants a role to a user, in all namespaces.
func bind(ctx context.Context, client kubernetes.Interface, user, role string) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind the role %s: %w", role, err)
	}
	return nil
}

/* list.h - every encoding, in the order of the documentation. Included by registry.c only. */
/* absolute */
X(sinusoidal)
X(timestep)
X(continuous_sinusoidal)
X(learned)
X(learned_extend)
X(random_fourier)
X(random_sinusoidal)
X(axial)
X(hierarchical)
X(time2vec)
X(continuous_mlp)
X(position_ids)
X(chunk_position_ids)
/* grid */
X(sinusoidal_2d)
X(sinusoidal_3d)
X(fourier_grid)
X(detr_sine)
X(box_sine)
X(vit_resize)
X(vit_resize_naflex)
X(fractional_patch_index)
X(vision_interpolation)
X(vision_position_ids)
/* rotary */
X(rope)
X(rope_2d)
X(rope_nd)
X(rope_2d_mixed)
X(mrope)
X(mrope_index)
X(xpos)
X(rope_apply)
X(rope_permute)
X(attention_temperature)
X(no_rope_layers)
/* relative */
X(alibi)
X(alibi_slopes)
X(t5_bucket)
X(t5_bias)
X(t5_bucket_prophetnet)
X(shaw_relative_index)
X(relative_sinusoidal)
X(deberta_relative)
X(swin_relative_position_index)
X(swinv2_relative_coords_table)
X(beit_relative_position_index)
X(beit_relative_position_bias)
X(timm_relative_position_index)
X(timm_relative_log_coords)
X(rel_bias_resize)
X(kerple)
X(sandwich)
X(fire)
X(cope)
X(dynamic_position_bias)
/* graph */
X(laplacian)
/*! X(magnetic_laplacian) */
/*! X(laplacian_matrix) */
/*! X(lambda_max) */
X(random_walk)
X(personalized_pagerank)
/*! X(heat_kernel) */
/*! X(electrostatic) */
X(degree)
X(local_degree_profile)
/*! X(shortest_path) */
/*! X(anchor_distance) */
X(weisfeiler_lehman)
/*! X(double_radius_node_labeling) */
/*! X(svd) */
/*! X(tree) */
/* use */
X(combine)
X(relative_shift)
